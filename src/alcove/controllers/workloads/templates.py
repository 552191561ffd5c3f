"""Template hashes, and pods from templates."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from alcove.api.objects import Object, get

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels, as in generated names, so that no words result."""
HASH_LENGTH = 10


def template_hash(template: Any, collisions: int = 0) -> str:
    """A hash of ten characters; `collisions` changes it after a name collision."""
    body = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.blake2s(body, digest_size=HASH_LENGTH, salt=collisions.to_bytes(8, "little")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)


def pod_of(template: Object, owner: Object) -> Object:
    """A pod from the template with `owner` as its controller reference; the caller sets the name."""
    metadata: Object = {"ownerReferences": [owner]}
    for field in ("labels", "annotations", "finalizers"):
        if value := get(template, "metadata", field):
            metadata[field] = value.copy()
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}
