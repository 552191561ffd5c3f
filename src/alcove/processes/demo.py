"""The demo of `alcove up`: two isolated tenants whose pods have the same addresses.

The tenants are kept; a second `up` reuses them and runs the checks again.
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
    """A check with its title."""

    title: str
    check: Check


def topology(nodes: Sequence[str]) -> CheckTopology:
    """Both tenants have a server and a client at the same addresses; only blue has the pod `lone`."""
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


def steps(layout: CheckTopology, vips: dict[CheckNetwork, str]) -> list[DemoStep]:
    pods = {pod.identity: pod for pod in layout.pods}
    found = []
    for network in layout.networks:
        tenant = network.tenant
        client, web = pods[f"{tenant}/{NETWORK}/client"], frozenset((f"{tenant}/{NETWORK}/web",))
        found += [
            DemoStep(
                f"{tenant}: {WEB} is {tenant}'s web pod", Check(client, CheckKind.POD, WEB, PORT, web, "")
            ),
            DemoStep(
                f"{tenant}: service {vips[network]} answers",
                Check(client, CheckKind.VIP, vips[network], SERVICE_PORT, web, ""),
            ),
            DemoStep(
                f"{tenant}: DNS resolves {SERVICE}.{NETWORK}",
                Check(
                    client, CheckKind.NAME, f"{SERVICE}.{NETWORK}.svc.cluster.local", SERVICE_PORT, web, ""
                ),
            ),
        ]
    red, blue = (pods[f"{tenant}/{NETWORK}/client"] for tenant in TENANTS)
    lone = frozenset((f"blue/{NETWORK}/lone",))
    found.append(DemoStep(f"blue: {LONE} answers in blue", Check(blue, CheckKind.POD, LONE, PORT, lone, "")))
    found.append(
        DemoStep(
            f"red: {LONE} does not answer in red", Check(red, CheckKind.POD, LONE, PORT, frozenset(), "")
        )
    )
    return found


def show(cluster: LocalCluster, progress: Progress) -> bool:
    """Returns whether all checks passed. On hollow nodes it only warns that nothing can be checked."""
    session = CliSession(cluster.admin_kubeconfig)
    nodes = real_nodes(session)
    layout = topology(nodes or [node.name for node in cluster.all_nodes()])
    runner = ConnectivityRunner(session, layout, READY_SECONDS_MAX)
    progress.say(f"\ndemo: tenants {' and '.join(TENANTS)}, each with its own VPC {CIDR}")
    try:
        with progress.step("pods") as step:
            runner.build()
            step.detail = f"{len(layout.pods)} ready, same addresses in both tenants"
        if not nodes:
            description = "tenants' pods are hollow" if cluster.hollow_tenants else "nodes are hollow"
            progress.warn(f"  ! {description}: these pods have states and addresses, but no processes;")
            progress.warn("    connectivity, isolation and DNS cannot be shown")
            return True
        return _run_checks(runner, layout, progress)
    except CliError as error:
        progress.warn(f"  ! demo failed: {error}")
        return False


def _run_checks(runner: ConnectivityRunner, layout: CheckTopology, progress: Progress) -> bool:
    with progress.step("networks") as step:
        all_steps = steps(layout, runner.vips())
        results = _in_order(all_steps, runner.ask(demo_step.check for demo_step in all_steps))
        right = sum(result.is_right for result in results)
        step.detail = f"{right} of {len(results)} checks passed"
    for demo_step, result in zip(all_steps, results, strict=True):
        _report(demo_step, result, progress)
    return right == len(results)


def _in_order(all_steps: Sequence[DemoStep], results: Sequence[CheckResult]) -> list[CheckResult]:
    by_check = {id(result.check): result for result in results}
    return [by_check[id(demo_step.check)] for demo_step in all_steps]


def _report(demo_step: DemoStep, result: CheckResult, progress: Progress) -> None:
    got = result.answer or "no answer"
    if result.is_right:
        progress.say(f"    {demo_step.title:<38} {got}")
    else:
        progress.warn(f"  ! {demo_step.title:<38} {got}: unexpected")
