"""What the objects of a dedicated plane say about it: conditions, address and errors. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from alcove.api import objects
from alcove.api.kinds.core.control_planes import replicas_of
from alcove.api.kinds.core.plane_sleep import API_SERVER_READY, ASLEEP, WAKING
from alcove.api.objects import Object, get
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.plane_certificates import CA_BEFORE, CA_CERTIFICATE, PlaneKeys
from alcove.controllers.planes import manifests

CERTIFICATES_READY, STORE_READY, JOINED = "CertificatesReady", "StoreReady", "Joined"


class RunningServer(Struct, frozen=True):
    """An API server that is ready."""

    url: str
    version: str


def running_servers(
    pods: Sequence[Object], keys: PlaneKeys, without: Collection[str] = ()
) -> list[RunningServer]:
    """The API servers that are ready, in order, and whose authority is one of the keys'; `without` these parts."""
    authorities = {
        manifests.authority_fingerprint(keys[each]) for each in (CA_CERTIFICATE, CA_BEFORE) if each in keys
    }
    found: list[RunningServer] = []
    for pod in sorted(pods, key=manifests.part_of):
        authority = objects.annotations(pod).get(manifests.AUTHORITY_ANNOTATION)
        address = get(pod, "status", "hostIP", default="")
        if authority in authorities and address and is_ready(pod) and manifests.part_of(pod) not in without:
            host = f"[{address}]" if ":" in address else address
            [container] = pod["spec"]["containers"]
            url = f"https://{host}:{manifests.port_of_pod(pod)}"
            found.append(RunningServer(url, container["image"].rpartition(":")[2]))
    return found


def endpoint(servers: Sequence[RunningServer], before: str) -> str:
    """The one address that is told to those who know but one: it stays as long as the server is ready."""
    return before if any(each.url == before for each in servers) else servers[0].url


def observed_servers(servers: Sequence[RunningServer], control_plane: Object) -> Object:
    wanted = manifests.version_of(control_plane)
    version = next((each.version for each in servers if each.version != wanted), wanted)
    several = [each.url for each in servers] if replicas_of(control_plane) > 1 else []
    return {"version": version, "endpoints": several}


def is_ready(pod: Object) -> bool:
    return conditions.is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def conditions_of(
    claim: Object | None,
    server: RunningServer | None,
    error: str,
    *,
    has_joined: bool,
    stop_reason: str = "",
    store_error: str = "",
) -> list[Condition]:
    """`error` says why the server does not run; empty if that is not known. `stop_reason` says that it is asleep or
    waking. `store_error` says why a store outside of the server is not ready."""
    joined = (
        "Controllers have joined the plane" if has_joined else "Controllers have not joined the plane yet"
    )
    return [
        Condition(CERTIFICATES_READY, True, "Issued", "The plane's authority and keys are valid"),
        _store_condition(claim, error, store_error),
        _server_condition(server, error, stop_reason),
        Condition(JOINED, has_joined, "Joined" if has_joined else "NotJoined", joined),
    ]


def _store_condition(claim: Object | None, error: str, store_error: str) -> Condition:
    if claim is None or get(claim, "status", "phase") != "Bound":
        message = f"The volume of the store is not bound yet{': ' if error else ''}{error}"
        return Condition(STORE_READY, False, "Unbound", message)
    if store_error:
        return Condition(STORE_READY, False, "NotReady", store_error)
    return Condition(STORE_READY, True, "Bound", "The volume of the store is bound")


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
