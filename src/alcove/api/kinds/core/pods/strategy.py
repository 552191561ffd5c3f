"""The strategy of pods."""

from collections.abc import Callable, Mapping

from alcove.api.kind import Strategy
from alcove.api.kinds.core.pods.create import prepare_new_pod, validate_new_pod, validate_pod
from alcove.api.kinds.core.pods.defaults import default_pod
from alcove.api.kinds.core.pods.status import prepare_pod_status, validate_pod_status
from alcove.api.kinds.core.pods.update import validate_pod_update
from alcove.api.objects import Object, get


def grace_seconds(pod: Object, requested: int | None) -> int:
    """Return the grace period of a deletion: 0 if the pod never ran or has terminated already."""
    if not get(pod, "spec", "nodeName") or get(pod, "status", "phase") in ("Failed", "Succeeded"):
        return 0
    seconds = (
        requested if requested is not None else get(pod, "spec", "terminationGracePeriodSeconds", default=0)
    )
    return 1 if seconds < 0 else int(seconds)


def _text(*path: str) -> Callable[[Object], str]:
    return lambda pod: str(get(pod, *path, default=""))


def _pod_ip(pod: Object) -> str:
    ips = get(pod, "status", "podIPs", default=())
    return str(ips[0].get("ip", "")) if ips else ""


def _host_network(pod: Object) -> str:
    return "true" if get(pod, "spec", "hostNetwork") else "false"


FIELDS: Mapping[str, Callable[[Object], str]] = {
    "spec.nodeName": _text("spec", "nodeName"),
    "spec.restartPolicy": _text("spec", "restartPolicy"),
    "spec.schedulerName": _text("spec", "schedulerName"),
    "spec.serviceAccountName": _text("spec", "serviceAccountName"),
    "spec.hostNetwork": _host_network,
    "status.phase": _text("status", "phase"),
    "status.podIP": _pod_ip,
    "status.podIPs": _pod_ip,
    "status.nominatedNodeName": _text("status", "nominatedNodeName"),
}


STRATEGY = Strategy(
    default=default_pod,
    validate=validate_pod,
    validate_create=validate_new_pod,
    validate_update=validate_pod_update,
    validate_status=validate_pod_status,
    prepare_create=prepare_new_pod,
    prepare_status=prepare_pod_status,
    fields=FIELDS,
    status_leaves=("ownerReferences",),
    has_status=True,
    counts_generation=True,
    grace_seconds=grace_seconds,
)
