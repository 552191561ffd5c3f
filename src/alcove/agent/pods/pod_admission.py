"""What a node does not run, whoever let it through: pods of tenants that would reach the node itself."""

from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.executor import PodRejected
from alcove.agent.runtime import security
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.api.objects import Object


def check(spec: Object, isolation: Isolation, *, is_ring0: bool) -> None:
    """PodRefused says why the pod is not run."""
    policy = security.policy_of(is_ring0, isolation)
    try:
        security.check_pod(spec, policy)
        for each in desired_containers(spec):
            security.is_privileged(each.spec, policy)
    except SpecRefused as error:
        reason = "SysctlForbidden" if "sysctl" in str(error) else "PodForbidden"
        raise PodRejected(reason, str(error)) from error
    if isolation is not Isolation.NAMESPACES and (spec.get("hostPID") or spec.get("hostIPC")):
        message = (
            "hostPID and hostIPC cannot be had behind a kernel of its own: use a RuntimeClass of crun or runc"
        )
        raise PodRejected("PodForbidden", message)
    if is_ring0:
        return
    if any("hostPath" in each for each in spec.get("volumes") or ()):
        raise PodRejected("PodForbidden", "hostPath volumes are not allowed for pods of tenants")
