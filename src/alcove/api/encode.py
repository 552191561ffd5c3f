"""Objects as bytes: encoded once, when written, with the revision spliced in afterwards.

A body in the store starts with apiVersion, kind and metadata, and carries no resourceVersion: that is the
revision of the body's own write, which is unknown until the store has committed it. `splice` inserts it by
slicing bytes, so a body is never encoded twice.
"""

import orjson

from alcove.api.errors import BadRequest
from alcove.api.objects import Object

_MARK = b'"metadata":{'


def encode(obj: Object) -> bytes:
    """Encode the object as the store keeps it.

    Raises BadRequest for values that JSON cannot hold (nesting too deep, an integer beyond 64 bits), which
    only a client's patch can produce.
    """
    meta = obj.get("metadata") or {}
    if "resourceVersion" in meta:
        meta = {field: value for field, value in meta.items() if field != "resourceVersion"}
    # The first place of a field decides where it stands.
    ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta, **obj}
    ordered["metadata"] = meta
    try:
        return orjson.dumps(ordered)
    except TypeError as error:  # orjson.JSONEncodeError
        raise BadRequest(f"the object cannot be encoded: {error}") from error


def splice(body: bytes, revision: int) -> bytes:
    """Insert the resourceVersion into `body`.

    The first `"metadata":{` is the object's metadata: only two strings precede it, and inside a string its
    quotes would be escaped.
    """
    at = body.index(_MARK) + len(_MARK)
    comma = b"" if body[at] == 125 else b","  # 125 is "}": the metadata is empty
    return b'%b"resourceVersion":"%d"%b%b' % (body[:at], revision, comma, body[at:])
