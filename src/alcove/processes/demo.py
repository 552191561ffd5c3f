"""What `alcove up` shows when everything runs: two tenants with the same addresses, who never meet.

The tenants stay, to be looked at and played with; a second `up` finds them there and asks again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.cli.connectivity.checks import Check, CheckKind, CheckResult
from alcove.cli.connectivity.runner import ConnectivityRunner, real_nodes
from alcove.cli.connectivity.topology import (
    PORT,
    SERVICE,
    SERVICE_PORT,
    CheckNetwork,
    CheckPod,
    CheckTopology,
)
from alcove.cli.errors import CliError
from alcove.cli.session import CliSession
from alcove.processes.machine.cluster import LocalCluster
from alcove.processes.machine.progress import Progress

TENANTS = ("red", "blue")
NETWORK = "vpc"
CIDR = "10.0.0.0/24"
WEB, CLIENT, LONE = "10.0.0.11", "10.0.0.12", "10.0.0.99"
READY_SECONDS_MAX = 60.0


class DemoStep(Struct, frozen=True):
    """One thing that the demo shows."""

    title: str
    check: Check


def world(nodes: Sequence[str]) -> CheckTopology:
    """Both tenants have a server and a client at the same addresses; blue also has a pod that red has not."""
    networks = tuple(CheckNetwork(tenant, NETWORK, CIDR) for tenant in TENANTS)
    first, last = nodes[0], nodes[-1]
    pods = [
        pod
        for tenant in TENANTS
        for pod in (
            CheckPod(tenant, NETWORK, NETWORK, "web", WEB, last),
            CheckPod(tenant, NETWORK, NETWORK, "client", CLIENT, first, is_backend=False),
        )
    ]
    return CheckTopology(
        networks, (*pods, CheckPod("blue", NETWORK, NETWORK, "lone", LONE, first, is_backend=False))
    )


def acts(shown: CheckTopology, vips: dict[CheckNetwork, str]) -> list[DemoStep]:
    pods = {pod.identity: pod for pod in shown.pods}
    found = []
    for network in shown.networks:
        tenant = network.tenant
        client, own = pods[f"{tenant}/{NETWORK}/client"], frozenset((f"{tenant}/{NETWORK}/web",))
        found += [
            DemoStep(f"{tenant}: {WEB} is its own web", Check(client, CheckKind.POD, WEB, PORT, own, "")),
            DemoStep(
                f"{tenant}: service {vips[network]} answers",
                Check(client, CheckKind.VIP, vips[network], SERVICE_PORT, own, ""),
            ),
            DemoStep(
                f"{tenant}: DNS knows {SERVICE}.{NETWORK}",
                Check(
                    client, CheckKind.NAME, f"{SERVICE}.{NETWORK}.svc.cluster.local", SERVICE_PORT, own, ""
                ),
            ),
        ]
    red, blue = (pods[f"{tenant}/{NETWORK}/client"] for tenant in TENANTS)
    lone = frozenset((f"blue/{NETWORK}/lone",))
    found.append(DemoStep(f"blue: {LONE} answers in blue", Check(blue, CheckKind.POD, LONE, PORT, lone, "")))
    found.append(
        DemoStep(f"red: {LONE} is silent in red", Check(red, CheckKind.POD, LONE, PORT, frozenset(), ""))
    )
    return found


def show(cluster: LocalCluster, progress: Progress) -> bool:
    """Returns whether everything was as it must be; on hollow nodes says what it cannot show."""
    session = CliSession(cluster.admin_kubeconfig)
    nodes = real_nodes(session)
    shown = world(nodes or [node.name for node in cluster.all_nodes()])
    stage = ConnectivityRunner(session, shown, READY_SECONDS_MAX)
    progress.say(f"\ndemo: tenants {' and '.join(TENANTS)}, each with a VPC {CIDR} of its own")
    try:
        with progress.step("pods") as step:
            stage.build()
            step.detail = f"{len(shown.pods)}, with the same addresses in both tenants"
        if not nodes:
            what = "tenants' pods are hollow" if cluster.hollow_tenants else "nodes are hollow"
            progress.warn(f"  ! {what}: these pods have states and addresses, but no process, so")
            progress.warn("    nothing can be shown to talk, to be silent, or to resolve names")
            return True
        return _play(stage, shown, progress)
    except CliError as error:
        progress.warn(f"  ! the demo stopped: {error}")
        return False


def _play(stage: ConnectivityRunner, shown: CheckTopology, progress: Progress) -> bool:
    with progress.step("networks") as step:
        played = acts(shown, stage.vips())
        results = _in_order(played, stage.ask(act.check for act in played))
        right = sum(result.is_right for result in results)
        step.detail = f"{right} of {len(results)} as they must be"
    for act, result in zip(played, results, strict=True):
        _tell(act, result, progress)
    return right == len(results)


def _in_order(played: Sequence[DemoStep], results: Sequence[CheckResult]) -> list[CheckResult]:
    by_check = {id(result.check): result for result in results}
    return [by_check[id(act.check)] for act in played]


def _tell(act: DemoStep, result: CheckResult, progress: Progress) -> None:
    got = result.answer or "silence"
    if result.is_right:
        progress.say(f"    {act.title:<38} {got}")
    else:
        progress.warn(f"  ! {act.title:<38} {got}, but that is wrong")
