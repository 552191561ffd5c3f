"""The last state of an object that has moved with its tenant to another API server: it is not deleted, but elsewhere.

It is told by the object's selfLink, which only API servers set: clients cannot say of their objects that they have moved.
"""

from alcove.api.objects import Object

_ELSEWHERE = "/moved"


def marked_as_moved(obj: Object) -> Object:
    obj["metadata"]["selfLink"] = _ELSEWHERE
    return obj


def has_moved(obj: Object) -> bool:
    """Whether the object of a DELETED event has only left this API server."""
    return bool(obj["metadata"].get("selfLink") == _ELSEWHERE)
