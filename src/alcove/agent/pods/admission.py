"""Admission of pods on the node: checks once more that a bound pod fits, as the kubelet does, and that it
cannot access the node.

A pod may reach the node without having passed the scheduler (`spec.nodeName`, `pods/binding`). One that does
not fit, does not select the node, does not tolerate its NoExecute taints or wants a host port that another pod has
is rejected with the kubelet's reasons (`OutOfcpu`, `NodeAffinity`, `TaintToleration`, `NodePorts`, …) and becomes Failed, so that the scheduler does not
count its requests. NoSchedule taints do not matter here, as for the kubelet. Pods that are running when the agent starts are counted without being
checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.executor import PodRejected, PodSetupError
from alcove.agent.pods.reservations import NodeReservations
from alcove.agent.runtime import security
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.api import names, quantity
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.pods.totals import Amounts, pod_requests
from alcove.api.nodeselection import is_selected
from alcove.api.objects import Object, get
from alcove.api.tolerations import NO_EXECUTE, is_tolerated, read_taints, read_tolerations
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import HOME
from alcove.client.resources import NODES

PODS = "pods"
NODE_SECONDS = 5.0
"""A pod is admitted by labels and taints that are at most this old."""
_ONE = quantity.of(1)
_NONE = quantity.of(0)
_EVERY_ADDRESS = (None, "", "0.0.0.0", "::")


class ResizeRefused(Exception):
    """The node does not have what a pod's resize asks for."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        """Infeasible, or Deferred if it fits when other pods are gone."""


class _HostPort(Struct, frozen=True):
    port: int
    protocol: str
    address: str
    """Of the node; empty for all."""

    def conflicts(self, other: _HostPort) -> bool:
        return (self.port, self.protocol) == (other.port, other.protocol) and (
            not self.address or not other.address or self.address == other.address
        )


class NodeAdmission:
    """The requests of all admitted pods, compared to the node's allocatable resources."""

    def __init__(
        self,
        allocatable: Mapping[str, str],
        node: CachedNode | None = None,
        reservations: NodeReservations | None = None,
    ) -> None:
        """Without `node`, selectors and taints are not checked; without `reservations`, pods of dedicated planes are
        admitted like others."""
        self._node = node
        self._reservations = reservations
        self._allocatable = {name: quantity.of(value) for name, value in allocatable.items()}
        self._admitted: dict[PodKey, Amounts] = {}
        self._host_ports: dict[PodKey, frozenset[_HostPort]] = {}
        """Of the admitted pods that have any."""

    async def admit(self, key: PodKey, pod: Object) -> None:
        """Counts the pod's requests from now on. Raises PodRejected if the node cannot run the pod, and
        PodSetupError if the Node object cannot be read, or ring0 has reserved nothing for the pod."""
        if key in self._admitted:
            return
        _check_names(pod)
        _check_os(pod["spec"])
        if self._node is not None:
            await _check_placement(pod["spec"], self._node)
        plane = self._reservations.plane_of(key) if self._reservations is not None else HOME
        if self._reservations is not None and plane != HOME:
            await self._reservations.check(plane, self._with(key, pod))
        ports = _host_ports(pod["spec"])
        if any(
            each.conflicts(other) for each in ports for used in self._host_ports.values() for other in used
        ):
            raise _predicate_failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
        self._reserve(key, pod)
        if ports:
            self._host_ports[key] = ports

    def _with(self, key: PodKey, pod: Object) -> Amounts:
        """What the tenant's pods request here, with this one."""
        total = {**pod_requests(pod["spec"]), PODS: _ONE}
        for other, requests in self._admitted.items():
            if other.tenant == key.tenant and other != key:
                for resource, requested in requests.items():
                    total[resource] = total.get(resource, _NONE) + requested
        return total

    def _reserve(self, key: PodKey, pod: Object) -> None:
        requests = {**pod_requests(pod["spec"]), PODS: _ONE}
        for resource, requested in requests.items():
            capacity = self._allocatable.get(resource)
            if capacity is None or not requested:
                continue
            used = self._used(resource)
            if used + requested > capacity:
                raise PodRejected(
                    f"OutOf{resource}",
                    f"Pod was rejected: Node didn't have enough resource: {resource}, "
                    f"requested: {requested}, used: {used}, capacity: {capacity}",
                )
        self._admitted[key] = requests

    def resize(self, key: PodKey, pod: Object) -> None:
        """Counts the pod's new requests instead of its old ones. Raises ResizeRefused if they do not fit."""
        requests = {**pod_requests(pod["spec"]), PODS: _ONE}
        before = self._admitted.get(key, {})
        plane = self._reservations.plane_of(key) if self._reservations is not None else HOME
        if self._reservations is not None and plane != HOME:
            grows = any(requested > before.get(name, _NONE) for name, requested in requests.items())
            if grows and not self._reservations.covers(plane, self._with(key, pod)):
                raise ResizeRefused("Deferred", "ring0's scheduler has not reserved as much for the plane")
        for resource, requested in requests.items():
            capacity = self._allocatable.get(resource)
            if capacity is None or requested <= before.get(resource, _NONE):
                continue
            if requested > capacity:
                message = f"{resource}, requested: {requested}, capacity: {capacity}"
                raise ResizeRefused("Infeasible", f"Node didn't have enough capacity: {message}")
            used = self._used(resource) - before.get(resource, _NONE)
            if used + requested > capacity:
                message = f"{resource}, requested: {requested}, used: {used}, capacity: {capacity}"
                raise ResizeRefused("Deferred", f"Node didn't have enough resource: {message}")
        self._admitted[key] = requests

    def adopt(self, key: PodKey, pod: Object) -> None:
        """Counts a pod that is running already."""
        self._admitted[key] = {**pod_requests(pod["spec"]), PODS: _ONE}
        if ports := _host_ports(pod["spec"]):
            self._host_ports[key] = ports

    def release(self, key: PodKey) -> None:
        """Stops counting a pod that has terminated or was deleted. Idempotent."""
        self._admitted.pop(key, None)
        self._host_ports.pop(key, None)

    def _used(self, resource: str) -> quantity.Quantity:
        amounts = (each[resource] for each in self._admitted.values() if resource in each)
        return sum(amounts, start=_NONE)


class CachedNode:
    """The node's own Node object, read at most once in NODE_SECONDS."""

    def __init__(self, client: Client, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._node: Object = {}
        self._read_at = -NODE_SECONDS
        self._lock = asyncio.Lock()

    async def get(self, *, seconds_max: float = NODE_SECONDS) -> Object:
        """The object as it was at most `seconds_max` ago. Raises PodSetupError."""
        async with self._lock:
            if self._clock() - self._read_at >= seconds_max:
                try:
                    self._node = await self._client.get(SYSTEM, NODES, self._name)
                except (ApiError, ClientError) as error:
                    raise PodSetupError("FailedCreatePodSandBox", "failed to read the node") from error
                self._read_at = self._clock()
            return self._node


async def _check_placement(spec: Object, cached: CachedNode) -> None:
    node = await cached.get()
    if not is_selected(spec, node):
        node = await cached.get(seconds_max=0.0)  # Its labels may have just changed.
        if not is_selected(spec, node):
            raise _predicate_failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    tolerations = read_tolerations(spec.get("tolerations") or ())
    taints = read_taints(get(node, "spec", "taints", default=()))
    if any(each.effect == NO_EXECUTE and not is_tolerated(each, tolerations) for each in taints):
        raise _predicate_failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _host_ports(spec: Object) -> frozenset[_HostPort]:
    """Host ports of containers and sidecars, which run at the same time."""
    containers = [
        *(spec.get("containers") or ()),
        *(each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"),
    ]
    return frozenset(
        _HostPort(
            port["hostPort"],
            port.get("protocol") or "TCP",
            "" if port.get("hostIP") in _EVERY_ADDRESS else port["hostIP"],
        )
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _predicate_failed(name: str, description: str) -> PodRejected:
    return PodRejected(name, f"Pod was rejected: Predicate {name} failed: {description}")


def _check_os(spec: Object) -> None:
    if get(spec, "os", "name", default="linux") != "linux":
        message = "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"
        raise PodRejected("PodOSNotSupported", message)


def _check_names(pod: Object) -> None:
    """Containers' names become ids and paths on this node; another plane may not have validated them."""
    for container in desired_containers(pod["spec"]):
        if errors := names.dns_label(container.name):
            raise PodRejected("InvalidPod", f"container name {container.name[:63]!r}: {errors[0]}")


def check_apparmor(spec: Object, isolation: Isolation, *, has_apparmor: bool) -> None:
    """Rejects pods whose AppArmor profiles the node cannot enforce. Raises PodRejected."""
    profiles = [security.apparmor_profile(spec, each.spec) for each in desired_containers(spec)]
    kinds = {profile.get("type", "Unconfined") for profile in profiles} - {"Unconfined"}
    message = ""
    if kinds and not has_apparmor:
        message = "AppArmor is not enabled on the host"
    elif "Localhost" in kinds and isolation is Isolation.SANDBOX:
        message = "the node's profiles do not apply inside a sandbox"
    if message:
        raise PodRejected("AppArmor", f"Pod was rejected: Cannot enforce AppArmor: {message}")


def check_security(spec: Object, isolation: Isolation, *, is_trusted: bool) -> None:
    """Rejects tenants' pods that could access the node, even if the API server's admission let them pass.
    Raises PodRejected."""
    policy = security.policy_of(is_trusted, isolation)
    try:
        security.check_pod(spec, policy)
        for each in desired_containers(spec):
            security.is_privileged(each.spec, policy)
            security.is_unmasked(spec, each.spec, policy)
    except SpecRefused as error:
        reason = "SysctlForbidden" if "sysctl" in str(error) else "PodForbidden"
        raise PodRejected(reason, str(error)) from error
    if isolation is not Isolation.NAMESPACES and (spec.get("hostPID") or spec.get("hostIPC")):
        message = "hostPID and hostIPC are not supported by a sandboxed runtime"
        raise PodRejected("PodForbidden", f"{message}: use a RuntimeClass with handler crun or runc")
    if is_trusted:
        return
    if any("hostPath" in each for each in spec.get("volumes") or ()):
        raise PodRejected("PodForbidden", "hostPath volumes are not allowed for pods of tenants")
