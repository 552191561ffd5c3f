"""Which requests need a cache that has all that other servers have written."""

from alcove.apiserver.call import ApiCall
from alcove.apiserver.rbac.nodes import node_name
from alcove.apiserver.resources.subresources import REVIEW_GROUPS, STREAMS

_READS = frozenset({"get", "list", "watch"})
_DISCOVERY_PATHS = ("/api", "/openapi")


def needs_newest(call: ApiCall) -> bool:
    """Whether a stale cache could give a wrong response that is not an error.

    That holds for reads without a resourceVersion, reviews, streams to pods, deletecollection, and for all
    requests of nodes, whose rights depend on pods.
    """
    target = call.target
    if not target.is_resource:
        return target.path.startswith(_DISCOVERY_PATHS)
    if call.verb in _READS:
        return not call.query.get("resourceVersion") or bool(node_name(call.identity))
    return (
        call.verb == "deletecollection"
        or target.group in REVIEW_GROUPS
        or target.subresource in STREAMS
        or bool(node_name(call.identity))
    )
