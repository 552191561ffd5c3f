"""Objects as bytes: encoded once, when written, with the revision spliced in afterwards.

A body in the store starts with apiVersion, kind and metadata, and carries no resourceVersion: that
is the revision of its own write, unknown until the store has taken it. `splice` puts it in by
slicing bytes, so that a body is never encoded twice.
"""

import orjson

from alcove.api.errors import BadRequest
from alcove.api.objects import Object

_MARK = b'"metadata":{'
_FIRST = frozenset(("apiVersion", "kind", "metadata"))


def encode(obj: Object) -> bytes:
    """The object as the store keeps it. Raises BadRequest for what JSON cannot hold (too deep a nesting,
    an integer past 64 bits): only a client's patch can bring such a thing this far."""
    meta = obj.get("metadata") or {}
    if "resourceVersion" in meta:
        meta = {field: value for field, value in meta.items() if field != "resourceVersion"}
    ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta}
    for field, value in obj.items():
        if field not in _FIRST:
            ordered[field] = value
    try:
        return orjson.dumps(ordered)
    except TypeError as error:  # orjson.JSONEncodeError
        raise BadRequest(f"the object cannot be encoded: {error}") from error


def splice(body: bytes, revision: int) -> bytes:
    """`body` with its resourceVersion.

    The first `"metadata":{` is the object's own: only the two strings before it could hide another, and
    inside a string its quotes would be escaped.
    """
    at = body.index(_MARK) + len(_MARK)
    comma = b"" if body[at] == 125 else b","  # 125 is "}": the metadata is empty
    return b'%b"resourceVersion":"%d"%b%b' % (body[:at], revision, comma, body[at:])
