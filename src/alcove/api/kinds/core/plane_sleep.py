"""Sleep of dedicated API servers: that of a tenant that is asleep is stopped, and runs for a while when somebody asks for it.

    Ready ── asleep, no pods, no requests ──▶ Asleep ── a request, or awake ──▶ Waking ── it answers ──▶ Ready

These are reasons of the Tenant's condition `APIServerReady`, which the plane controller writes.
"""

from collections.abc import Sequence

from alcove.api import meta
from alcove.api.kinds.core.sleep import ASLEEP as SLEEP_CONDITION
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.objects import Object, get

API_SERVER_READY = "APIServerReady"
ASLEEP, WAKING = "Asleep", "Waking"
IDLE_SECONDS = 300.0
"""How long after the last request the API server of a tenant that is asleep is stopped."""
PODS_SECONDS_MAX = 600.0
"""How long pods of a tenant that has fallen asleep keep its API server running. Agents end them without it, too, once
they are deleted; objects with finalizers of the tenant's own may stay for ever."""


def is_stopped(tenant: Object) -> bool:
    """Whether its API server is asleep or waking: there is nothing to connect to."""
    return stop_reason(tenant) in (ASLEEP, WAKING)


def stop_reason(tenant: Object) -> str:
    """The reason of the condition `APIServerReady`; empty if there is none."""
    return str(_condition(tenant, API_SERVER_READY).get("reason", ""))


def idle_at(tenant: Object) -> float:
    """When nobody has asked for IDLE_SECONDS for the API server of a tenant that is asleep; epoch seconds."""
    requested = get(tenant, "status", "controlPlane", "lastRequestTime", default="")
    return meta.parse_time(requested) + IDLE_SECONDS if requested else 0.0


def must_run(tenant: Object, now: float, *, has_pods: bool | None) -> bool:
    """`has_pods`: whether pods of the tenant are on nodes; None if that is not known. They end first, since agents
    learn from the API server that they have to."""
    if not is_asleep(tenant) or "deletionTimestamp" in tenant["metadata"] or now < idle_at(tenant):
        return True
    if has_pods is None:
        return stop_reason(tenant) != ASLEEP  # It was known when it was stopped.
    return has_pods and now < _asleep_since(tenant) + PODS_SECONDS_MAX


def _asleep_since(tenant: Object) -> float:
    since = _condition(tenant, SLEEP_CONDITION).get("lastTransitionTime")
    return meta.parse_time(since) if since else 0.0


def _condition(tenant: Object, type_: str) -> Object:
    """Empty if there is none."""
    conditions: Sequence[Object] = get(tenant, "status", "conditions", default=None) or ()
    return next((each for each in conditions if each.get("type") == type_), {})
