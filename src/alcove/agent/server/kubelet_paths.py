"""Requests as Kubernetes' own API server sends them to a kubelet: which pod and verb they are for.

    /containerLogs/NAMESPACE/POD/CONTAINER
    /exec/NAMESPACE/POD[/UID]/CONTAINER      /attach/NAMESPACE/POD[/UID]/CONTAINER
    /portForward/NAMESPACE/POD[/UID]

Their verbs are served as those of Alcove's own API servers are.
"""

from __future__ import annotations

from msgspec import Struct, structs

from alcove.agent.server.requests import NodeRequest

_STREAMS = {"input": "stdin", "output": "stdout", "error": "stderr"}
"""Query parameters that have other names in the Kubernetes API."""


class KubeletRequest(Struct, frozen=True):
    namespace: str
    pod: str
    uid: str
    """Empty if the request has none."""
    verb: str
    """One of `node_api.POD_VERBS`."""
    request: NodeRequest
    """With the query that the verb has in the Kubernetes API."""


def parsed(request: NodeRequest) -> KubeletRequest | None:
    """None for other requests."""
    match request.path:
        case ("containerLogs", namespace, pod, container):
            return KubeletRequest(namespace, pod, "", "log", _of_container(request, container))
        case ("exec" | "attach" as verb, namespace, pod, container):
            return KubeletRequest(namespace, pod, "", verb, _of_container(request, container))
        case ("exec" | "attach" as verb, namespace, pod, uid, container):
            return KubeletRequest(namespace, pod, uid, verb, _of_container(request, container))
        case ("portForward", namespace, pod):
            return KubeletRequest(namespace, pod, "", "portforward", request)
        case ("portForward", namespace, pod, uid):
            return KubeletRequest(namespace, pod, uid, "portforward", request)
    return None


def _of_container(request: NodeRequest, container: str) -> NodeRequest:
    query = {_STREAMS.get(name, name): values for name, values in request.query.items()}
    return structs.replace(request, query={**query, "container": [container]})
