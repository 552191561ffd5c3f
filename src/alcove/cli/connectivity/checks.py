"""What must and must not be reachable from each pod, and the script that finds out inside it. Pure.

One script for each pod asks everything at once, so that the silence of many costs the time of one.
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
"""How long a pod that must not answer is listened to."""
API_HOST, API_PORT = "kubernetes.default.svc", 443
SERVER_HELLO = "1603"
"""How the answer of a TLS server begins."""


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
    """Answers that are right: the page of one of these pods; empty: silence."""
    about: str
    """What it shows, for people."""


class CheckResult(Struct, frozen=True):
    check: Check
    answer: str

    @property
    def is_right(self) -> bool:
        return self.answer in self.check.expected if self.check.expected else not self.answer


def checks(
    topology: CheckTopology, vips: dict[CheckNetwork, str], agents: Sequence[tuple[str, int]] = ()
) -> list[Check]:
    """Everything that is to be tried. `vips` are the addresses of the networks' services, `agents` those of the
    nodes' own servers, which no pod may reach."""
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
    """Every address that any pod has, from this one: its own network's pod answers, or nobody."""
    every = [pod for pod in pods if pod != source]
    found = []
    for address in dict.fromkeys(pod.address for pod in every):
        if address == source.address:
            continue
        mine = frozenset(pod.identity for pod in every if pod.address == address and is_together(pod, source))
        theirs = sum(1 for pod in every if pod.address == address and not is_together(pod, source))
        about = (
            f"not {theirs} of others"
            if mine and theirs
            else "same network"
            if mine
            else "other networks only"
        )
        found.append(Check(source, CheckKind.POD, address, PORT, mine, about))
    return found


def is_together(one: CheckPod, other: CheckPod) -> bool:
    return (one.tenant, one.network) == (other.tenant, other.network)


def script(asked: Sequence[Check]) -> str:
    """For a shell in the pod: each answer on a line `NUMBER ANSWER`, in any order."""
    lines = [f"({_ask(check)}) 2>/dev/null | sed 's/^/{number} /' &" for number, check in enumerate(asked)]
    return "\n".join((*lines, "wait"))


def _ask(check: Check) -> str:
    seconds = TALK_SECONDS if check.expected else SILENCE_SECONDS
    reach = f"timeout {seconds} nc {shlex.quote(check.target)} {check.port}"
    if check.kind in (CheckKind.API, CheckKind.NODE):
        # The greeting alone: images need no TLS, and what follows is the same for everybody.
        return f"(printf '{client_hello()}'; sleep 1) | {reach} | head -c 2 | xxd -p"
    return f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | {reach} | tail -n 1"


@cache
def client_hello() -> str:
    """How a TLS client greets a server, as a shell's printf writes it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    greeting = context.wrap_bio(incoming, outgoing, server_hostname=API_HOST)
    try:
        greeting.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return "".join(f"\\{byte:03o}" for byte in outgoing.read())


def results(asked: Sequence[Check], message: str) -> list[CheckResult]:
    """What the script's output says."""
    answers: dict[int, str] = {}
    for line in message.splitlines():
        number, _, answer = line.partition(" ")
        if number.isdigit():
            answers[int(number)] = answer.strip()
    return [CheckResult(check, answers.get(number, "")) for number, check in enumerate(asked)]
