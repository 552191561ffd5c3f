"""Rejects tenants' pods that could access the node, even if the API server's admission let them pass."""

from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.executor import PodRejected
from alcove.agent.runtime import security
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.api.objects import Object


def check(spec: Object, isolation: Isolation, *, is_ring0: bool) -> None:
    """Raises PodRejected if the pod may not run on this node."""
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
