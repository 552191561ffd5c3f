"""JSON merge patch (RFC 7386): values replace, null deletes, lists are replaced as a whole."""

from typing import Any

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.patch.document import bounded, copy, type_name


@bounded
def apply(obj: Object, patch: Any) -> Object:
    """Return `obj` patched, as a new object. `patch` is the decoded body. Raises BadRequest."""
    if type(patch) is not dict:
        raise BadRequest(f"error decoding patch: a merge patch must be an object, got {type_name(patch)}")
    patched = copy(obj)
    _merge(patched, copy(patch))
    return patched


def _merge(target: Object, patch: Object) -> None:
    for field, value in patch.items():
        if value is None:
            target.pop(field, None)
        elif type(value) is not dict:
            target[field] = value
        else:
            current = target.get(field)
            if type(current) is not dict:
                current = target[field] = {}
            _merge(current, value)
