"""Pods and names out of templates."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from alcove.api.objects import Object, get

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""As in generated names: no words come out."""
HASH_LENGTH = 10


def template_hash(template: Any, collisions: int = 0) -> str:
    """Ten characters that stand for a template; `collisions` gives another where they were taken."""
    body = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.blake2s(body, digest_size=HASH_LENGTH, salt=collisions.to_bytes(8, "little")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)


def pod_of(template: Object, owner: Object) -> Object:
    """A pod of the template that the referred owner controls; its name is still to be given."""
    metadata: Object = {"ownerReferences": [owner]}
    for field in ("labels", "annotations", "finalizers"):
        if value := get(template, "metadata", field):
            metadata[field] = value.copy()
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}
