"""Draining a node: plan which pods are evicted and which prevent it, then evict until they are deleted.

Evictions respect PodDisruptionBudgets: a refused eviction is retried until the timeout.
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
    """A DaemonSet or mirror pod: it would be recreated on the node immediately."""
    UNMANAGED = "not managed by a controller (use --force to evict it)"
    HAS_DATA = "has emptyDir data (use --delete-emptydir-data to lose it)"


def fate(pod: Object, rules: DrainOptions) -> DrainAction:
    """What draining does with the pod."""
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
        self._notify = notify

    def run(self) -> None:
        """Raises CliError if a pod prevents the drain (nothing is evicted then), or on timeout."""
        self._session.patch(NODES, self._node, {"spec": {"unschedulable": True}})
        self._check_all_evictable()
        deadline = time.monotonic() + self._rules.seconds_max
        evicted: set[str] = set()
        while pods := self._pods_to_evict():
            for pod in pods:
                if pod["metadata"]["uid"] not in evicted and self._evict(pod):
                    evicted.add(pod["metadata"]["uid"])
            if time.monotonic() > deadline:
                names = ", ".join(label(pod) for pod in pods[:5])
                raise CliError(f"timed out: {len(pods)} pods remain on the node: {names}", ExitCode.TIMEOUT)
            time.sleep(AGAIN_SECONDS if len(evicted) < len(pods) else 0.2)

    def _check_all_evictable(self) -> None:
        actions = [(pod, fate(pod, self._rules)) for pod in self._pods()]
        messages = [
            f"{label(pod)}: {action.value}"
            for pod, action in actions
            if action not in (DrainAction.GOES, DrainAction.STAYS)
        ]
        if messages:
            raise CliError(
                "cannot drain the node; it is cordoned, nothing was evicted:\n  " + "\n  ".join(messages)
            )

    def _pods(self) -> list[Object]:
        return self._session.items(PODS, "all", fieldSelector=f"spec.nodeName={self._node}")

    def _pods_to_evict(self) -> list[Object]:
        return [pod for pod in self._pods() if fate(pod, self._rules) is DrainAction.GOES]

    def _evict(self, pod: Object) -> bool:
        """Whether the eviction was accepted. False if a disruption budget does not allow it yet."""
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
        self._notify(f"evicting {label(pod)}")
        return True
