"""Which targets each pod must and must not reach, and the shell script that checks it inside the pod. Pure.

One script per pod runs its checks concurrently: many timeouts take as long as one.
"""

from __future__ import annotations

import shlex
import ssl
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache

from msgspec import Struct

from alcove.cli.connectivity.topology import (
    PORT,
    SERVICE,
    SERVICE_PORT,
    CheckNetwork,
    CheckPod,
    CheckTopology,
)

TALK_SECONDS = 5
SILENCE_SECONDS = 2
"""Timeout of a check that must get no answer."""
API_HOST, API_PORT = "kubernetes.default.svc", 443
SERVER_HELLO = "1603"
"""The first two bytes of a TLS server's answer, in hexadecimal."""


class CheckKind(StrEnum):
    POD = "pod"
    VIP = "service"
    NAME = "DNS"
    API = "API"
    NODE = "node"


class Check(Struct, frozen=True):
    source: CheckPod
    kind: CheckKind
    target: str
    """An address or a name."""
    port: int
    expected: frozenset[str]
    """Accepted answers: the page of one of these pods. Empty if there must be no answer."""
    about: str
    """Description for users."""


class CheckResult(Struct, frozen=True):
    check: Check
    answer: str

    @property
    def is_right(self) -> bool:
        return self.answer in self.check.expected if self.check.expected else not self.answer


def checks(
    topology: CheckTopology, vips: dict[CheckNetwork, str], agents: Sequence[tuple[str, int]] = ()
) -> list[Check]:
    """All checks of the topology. `vips` are the networks' service addresses, `agents` the addresses of the
    nodes' API servers, which no pod may reach."""
    found: list[Check] = []
    for source in topology.pods:
        found += pod_checks(source, topology.pods)
        network = next(
            each for each in topology.networks if (each.tenant, each.name) == (source.tenant, source.network)
        )
        backends = frozenset(
            pod.identity for pod in topology.pods if pod.is_backend and is_together(pod, source)
        )
        if vip := vips.get(network):
            found.append(Check(source, CheckKind.VIP, vip, SERVICE_PORT, backends, "its network's service"))
        name = f"{SERVICE}.{network.namespace}.svc.cluster.local"
        found.append(Check(source, CheckKind.NAME, name, SERVICE_PORT, backends, "the service by its name"))
        found.append(
            Check(source, CheckKind.API, API_HOST, API_PORT, frozenset((SERVER_HELLO,)), "its tenant's API")
        )
        found += [
            Check(source, CheckKind.NODE, address, port, frozenset(), "the nodes themselves")
            for address, port in agents
        ]
    return found


def pod_checks(source: CheckPod, pods: Iterable[CheckPod]) -> list[Check]:
    """Checks of every pod address from `source`: only a pod of the same network may answer."""
    others = [pod for pod in pods if pod != source]
    found = []
    for address in dict.fromkeys(pod.address for pod in others):
        if address == source.address:
            continue
        same_network = frozenset(
            pod.identity for pod in others if pod.address == address and is_together(pod, source)
        )
        other_count = sum(1 for pod in others if pod.address == address and not is_together(pod, source))
        about = (
            f"same network, not {other_count} others"
            if same_network and other_count
            else "same network"
            if same_network
            else "other networks only"
        )
        found.append(Check(source, CheckKind.POD, address, PORT, same_network, about))
    return found


def is_together(one: CheckPod, other: CheckPod) -> bool:
    return (one.tenant, one.network) == (other.tenant, other.network)


def script(requested: Sequence[Check]) -> str:
    """The shell script for a pod. It prints each answer as a line `NUMBER ANSWER`, in any order."""
    lines = [
        f"({_command(check)}) 2>/dev/null | sed 's/^/{number} /' &" for number, check in enumerate(requested)
    ]
    return "\n".join((*lines, "wait"))


def _command(check: Check) -> str:
    seconds = TALK_SECONDS if check.expected else SILENCE_SECONDS
    reach = f"timeout {seconds} nc {shlex.quote(check.target)} {check.port}"
    if check.kind in (CheckKind.API, CheckKind.NODE):
        # Send only a ClientHello: the image needs no TLS client then.
        return f"(printf '{client_hello()}'; sleep 1) | {reach} | head -c 2 | xxd -p"
    return f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {reach} | tail -n 1"


@cache
def client_hello() -> str:
    """A TLS ClientHello, escaped for the shell's printf."""
    context = ssl.create_default_context()
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=API_HOST)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return "".join(f"\\{byte:03o}" for byte in outgoing.read())


def results(requested: Sequence[Check], output: str) -> list[CheckResult]:
    """The results in the script's output."""
    answers: dict[int, str] = {}
    for line in output.splitlines():
        number, _, answer = line.partition(" ")
        if number.isdigit():
            answers[int(number)] = answer.strip()
    return [CheckResult(check, answers.get(number, "")) for number, check in enumerate(requested)]
