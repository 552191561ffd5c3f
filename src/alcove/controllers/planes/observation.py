"""What the objects of a dedicated plane say about it: conditions, address and errors. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import objects
from alcove.api.kinds.core.plane_sleep import API_SERVER_READY, ASLEEP, WAKING
from alcove.api.objects import Object, get
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.planes import manifests

CERTIFICATES_READY, STORE_READY, JOINED = "CertificatesReady", "StoreReady", "Joined"


class RunningServer(Struct, frozen=True):
    """An API server that is ready."""

    url: str
    version: str


def running_server(pods: Sequence[Object], port: int, keys_fingerprint: str) -> RunningServer | None:
    """The API server with these keys, if it is ready. One that is being replaced has the keys of before."""
    for pod in pods:
        keys = objects.annotations(pod).get(manifests.KEYS_ANNOTATION)
        address = get(pod, "status", "hostIP", default="")
        if keys != keys_fingerprint or not address or not conditions.is_true(pod, "Ready"):
            continue
        if "deletionTimestamp" not in pod["metadata"]:
            host = f"[{address}]" if ":" in address else address
            [container] = pod["spec"]["containers"]
            return RunningServer(f"https://{host}:{port}", container["image"].rpartition(":")[2])
    return None


def conditions_of(
    claim: Object | None,
    server: RunningServer | None,
    error: str,
    *,
    has_joined: bool,
    stop_reason: str = "",
) -> list[Condition]:
    """`error` says why the server does not run; empty if that is not known. `stop_reason` says that it is asleep or
    waking."""
    bound = claim is not None and get(claim, "status", "phase") == "Bound"
    unbound = f"The volume of the store is not bound yet{': ' if error else ''}{error}"
    store = "The volume of the store is bound" if bound else unbound
    joined = (
        "Controllers have joined the plane" if has_joined else "Controllers have not joined the plane yet"
    )
    return [
        Condition(CERTIFICATES_READY, True, "Issued", "The plane's authority and keys are valid"),
        Condition(STORE_READY, bound, "Bound" if bound else "Unbound", store),
        _server_condition(server, error, stop_reason),
        Condition(JOINED, has_joined, "Joined" if has_joined else "NotJoined", joined),
    ]


def _server_condition(server: RunningServer | None, error: str, stop_reason: str) -> Condition:
    if stop_reason == ASLEEP:
        message = (
            "The tenant is asleep; a request to the home plane's address of the tenant starts the API server"
        )
        return Condition(API_SERVER_READY, False, ASLEEP, message)
    if server is not None:
        return Condition(API_SERVER_READY, True, "Ready", "The API server is ready")
    reason = WAKING if stop_reason == WAKING else "NotReady"
    return Condition(API_SERVER_READY, False, reason, error or "The API server is starting")


def failed(condition: str, reason: str, message: str) -> Condition:
    """A step that could not be done."""
    return Condition(condition, False, reason, message)


def error_of(pods: Sequence[Object]) -> str:
    """Why the API server does not run, as its pod says."""
    for pod in pods:
        for status in get(pod, "status", "containerStatuses", default=()):
            for state in ("state", "lastState"):
                found = status.get(state) or {}
                reason = found.get("waiting") or found.get("terminated") or {}
                if reason.get("reason") not in (None, "ContainerCreating", "PodInitializing", "Completed"):
                    code = f" (exit code {reason['exitCode']})" if "exitCode" in reason else ""
                    return f"{reason['reason']}{code}: {reason.get('message') or 'no message'}"
        for condition in get(pod, "status", "conditions", default=()):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return f"{condition.get('reason')}: {condition.get('message')}"
    return ""
