"""Admission of pods on the node: checks once more that a bound pod fits, as the kubelet does, and that it
cannot access the node.

A pod may reach the node without having passed the scheduler (`spec.nodeName`, `pods/binding`). One that does
not fit is rejected with the kubelet's reasons (`OutOfcpu`, `OutOfpods`, …) and becomes Failed, so that the
scheduler does not count its requests. Pods that are running when the agent starts are counted without being
checked.
"""

from collections.abc import Mapping

from alcove.agent.podkey import PodKey
from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.executor import PodRejected
from alcove.agent.runtime import security
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.api import names, quantity
from alcove.api.kinds.core.pods.totals import Amounts, pod_requests
from alcove.api.objects import Object

PODS = "pods"
_ONE = quantity.of(1)
_NONE = quantity.of(0)


class NodeAdmission:
    """The requests of all admitted pods, compared to the node's allocatable resources."""

    def __init__(self, allocatable: Mapping[str, str]) -> None:
        self._allocatable = {name: quantity.of(value) for name, value in allocatable.items()}
        self._admitted: dict[PodKey, Amounts] = {}

    def admit(self, key: PodKey, pod: Object) -> None:
        """Counts the pod's requests from now on. Raises PodRejected if the node cannot run the pod."""
        if key in self._admitted:
            return
        _check_names(pod)
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

    def adopt(self, key: PodKey, pod: Object) -> None:
        """Counts a pod that is running already."""
        self._admitted[key] = {**pod_requests(pod["spec"]), PODS: _ONE}

    def release(self, key: PodKey) -> None:
        """Stops counting a pod that has terminated or was deleted. Idempotent."""
        self._admitted.pop(key, None)

    def _used(self, resource: str) -> quantity.Quantity:
        amounts = (each[resource] for each in self._admitted.values() if resource in each)
        return sum(amounts, start=_NONE)


def _check_names(pod: Object) -> None:
    """Containers' names become ids and paths on this node; another plane may not have validated them."""
    for container in desired_containers(pod["spec"]):
        if errors := names.dns_label(container.name):
            raise PodRejected("InvalidPod", f"container name {container.name[:63]!r}: {errors[0]}")


def check_security(spec: Object, isolation: Isolation, *, is_ring0: bool) -> None:
    """Rejects tenants' pods that could access the node, even if the API server's admission let them pass.
    Raises PodRejected."""
    policy = security.policy_of(is_ring0, isolation)
    try:
        security.check_pod(spec, policy)
        for each in desired_containers(spec):
            security.is_privileged(each.spec, policy)
    except SpecRefused as error:
        reason = "SysctlForbidden" if "sysctl" in str(error) else "PodForbidden"
        raise PodRejected(reason, str(error)) from error
    if isolation is not Isolation.NAMESPACES and (spec.get("hostPID") or spec.get("hostIPC")):
        message = "hostPID and hostIPC are not supported by a sandboxed runtime"
        raise PodRejected("PodForbidden", f"{message}: use a RuntimeClass with handler crun or runc")
    if is_ring0:
        return
    if any("hostPath" in each for each in spec.get("volumes") or ()):
        raise PodRejected("PodForbidden", "hostPath volumes are not allowed for pods of tenants")
