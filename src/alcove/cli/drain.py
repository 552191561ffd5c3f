"""Draining a node: which of its pods go and which forbid it (a plan), then evictions until they are gone.

Evictions keep disruption budgets: a pod that may not go yet is asked again until the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import NotFound, TooManyRequests
from alcove.api.objects import Object
from alcove.cli.errors import CliError, ExitCode
from alcove.cli.session import CliSession
from alcove.client.resources import NODES, PODS

AGAIN_SECONDS = 1.0
_MIRROR = "kubernetes.io/config.mirror"


class DrainOptions(Struct, frozen=True):
    loses_empty_dirs: bool
    takes_unmanaged: bool
    grace_seconds: int | None
    seconds_max: float


class DrainAction(Enum):
    GOES = "goes"
    STAYS = "stays"
    """A node's own: it is made anew at once, or ended already."""
    UNMANAGED = "nothing would make it anew elsewhere (--force)"
    HAS_DATA = "it has an emptyDir that would be lost (--delete-emptydir-data)"


def fate(pod: Object, rules: DrainOptions) -> DrainAction:
    """What draining does to a pod."""
    owners = objects.get(pod, "metadata", "ownerReferences", default=[])
    if any(owner.get("kind") == "DaemonSet" and owner.get("controller") for owner in owners):
        return DrainAction.STAYS
    if _MIRROR in objects.annotations(pod):
        return DrainAction.STAYS
    if objects.get(pod, "status", "phase") in ("Succeeded", "Failed"):
        return DrainAction.GOES
    if not any(owner.get("controller") for owner in owners) and not rules.takes_unmanaged:
        return DrainAction.UNMANAGED
    volumes = objects.get(pod, "spec", "volumes", default=[])
    if any("emptyDir" in volume for volume in volumes) and not rules.loses_empty_dirs:
        return DrainAction.HAS_DATA
    return DrainAction.GOES


def label(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('tenant', '')}/{metadata.get('namespace', '')}/{metadata['name']}"


class NodeDrain:
    def __init__(
        self, session: CliSession, node: str, rules: DrainOptions, notify: Callable[[str], None]
    ) -> None:
        self._session = session
        self._node = node
        self._rules = rules
        self._tell = notify

    def run(self) -> None:
        """Raises Failure: what forbids it, before anything is evicted; or that the time is over."""
        self._session.patch(NODES, self._node, {"spec": {"unschedulable": True}})
        self._check()
        deadline = time.monotonic() + self._rules.seconds_max
        asked: set[str] = set()
        while pods := self._going():
            for pod in pods:
                if pod["metadata"]["uid"] not in asked and self._evict(pod):
                    asked.add(pod["metadata"]["uid"])
            if time.monotonic() > deadline:
                left = ", ".join(label(pod) for pod in pods[:5])
                raise CliError(f"{len(pods)} pods are still there: {left}", ExitCode.TIMEOUT)
            time.sleep(AGAIN_SECONDS if len(asked) < len(pods) else 0.2)

    def _check(self) -> None:
        refused = [(pod, fate(pod, self._rules)) for pod in self._pods()]
        messages = [
            f"{label(pod)}: {why.value}"
            for pod, why in refused
            if why not in (DrainAction.GOES, DrainAction.STAYS)
        ]
        if messages:
            raise CliError("the node is cordoned, but nothing was evicted:\n  " + "\n  ".join(messages))

    def _pods(self) -> list[Object]:
        return self._session.items(PODS, "all", fieldSelector=f"spec.nodeName={self._node}")

    def _going(self) -> list[Object]:
        return [pod for pod in self._pods() if fate(pod, self._rules) is DrainAction.GOES]

    def _evict(self, pod: Object) -> bool:
        """Whether it was taken; False: a budget does not allow it yet."""
        metadata = pod["metadata"]
        eviction: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        }
        if self._rules.grace_seconds is not None:
            eviction["deleteOptions"] = {"gracePeriodSeconds": self._rules.grace_seconds}
        try:
            self._session.create(PODS, eviction, metadata["tenant"], metadata["namespace"], "eviction")
        except NotFound:
            return True
        except TooManyRequests:
            return False
        self._tell(f"evicting {label(pod)}")
        return True
