"""Encoded objects that differ only in what is each one's own share the rest of their bytes.

Every tenant has the same first objects, and the pods of a set differ in their names: nine tenths of a body's bytes
are those of many others. What is an object's own is found without decoding: its tenant and its name, which the caller
knows, large numbers, and whole strings that are a uid, a time, an address, a number or two names. The rest is a template.

    {"kind":"Namespace","metadata":{"name":"default","tenant":"acme","uid":"5adec381-…","creationTimestamp":"2026-…Z"}}
    {"kind":"Namespace","metadata":{"name":"default","tenant":"·","uid":·,"creationTimestamp":·}}   the template

A body is packed if another one had the same template; the first is only remembered. Packing loses nothing, whatever
the body is, and a template lives as long as a body that uses it.
"""

from __future__ import annotations

import re
from weakref import WeakValueDictionary

from msgspec import Struct

TEMPLATES_SEEN_MAX = 8192
"""Templates of one body each that are remembered, by hash."""
BODY_BYTES_MAX = 16 << 10
"""Larger bodies are not packed: few objects have one, and it may have many values."""
NAME_LENGTH_MIN = 3
"""Shorter names of tenants and objects may occur everywhere in a body, and stay in the template."""

# JSON text has no control characters, so they can stand for the names.
_TENANT, _NAME, _SEPARATOR = b"\x00", b"\x01", b"\x02"
# A quote comes first: it makes the search five times as fast, and so does to look at the character after it. Strings
# within the keys of managedFields are escaped.
_OWN = re.compile(
    rb'"(?=[0-9a-z]|:[0-9])('
    rb'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}(?=\\?")'
    rb'|[0-9][0-9.:TZ-]*(?=\\?")'
    rb"|:[0-9]{4,}(?=[,}])"  # A number, with the colon after its key: a VNI, a port.
    rb'|[0-9a-z-]+/[0-9a-z-]+(?=")'  # A tenant's network, which is an annotation of the VPC provider's objects.
    rb")"
)


class BodyTemplate:
    """The bytes that bodies have in common, and the order in which their own values stand between them."""

    __slots__ = ("__weakref__", "fixed", "order", "size")

    def __init__(self, fixed: tuple[bytes, ...], order: tuple[int, ...], size: int) -> None:
        *others, last = fixed
        self.fixed = (*(piece + b'"' for piece in others), last)
        self.order = order
        self.size = size
        """About the length of a body."""

    def fill(self, own: bytes, tenant: str, name: str) -> bytes:
        values = own.split(_SEPARATOR)
        parts = [b""] * (2 * len(self.fixed) - 1)
        parts[::2] = self.fixed
        parts[1::2] = [values[index] for index in self.order]
        body = b"".join(parts)
        if len(tenant) >= NAME_LENGTH_MIN:
            body = body.replace(_TENANT, tenant.encode())
        return body.replace(_NAME, name.encode()) if len(name) >= NAME_LENGTH_MIN else body


class PackedBody(Struct, frozen=True, gc=False):
    template: BodyTemplate
    own: bytes
    """The values of this body, separated."""

    @property
    def size(self) -> int:
        """About the length of the body."""
        return self.template.size

    def unpack(self, tenant: str, name: str) -> bytes:
        """The whole body; with the tenant and name that it was packed with."""
        return self.template.fill(self.own, tenant, name)


class SharedBodies:
    """Packs bodies. Those of one process share templates, whoever owns them."""

    def __init__(self, seen_max: int = TEMPLATES_SEEN_MAX) -> None:
        self._templates: WeakValueDictionary[tuple[tuple[bytes, ...], tuple[int, ...]], BodyTemplate] = (
            WeakValueDictionary()
        )
        self._seen: dict[int, None] = {}
        self._seen_max = seen_max

    def pack(self, body: bytes, tenant: str, name: str) -> PackedBody | bytes:
        """The body itself if it has not enough in common with others."""
        if len(body) > BODY_BYTES_MAX or _TENANT in body or _NAME in body or _SEPARATOR in body:
            return body
        marked = body
        if len(tenant) >= NAME_LENGTH_MIN:
            marked = marked.replace(tenant.encode(), _TENANT)
        if len(name) >= NAME_LENGTH_MIN:
            marked = marked.replace(name.encode(), _NAME)
        pieces = _OWN.split(marked)
        values: dict[bytes, int] = {}
        order = [values.setdefault(value, len(values)) for value in pieces[1::2]]
        shape = (tuple(pieces[::2]), tuple(order))
        template = self._templates.get(shape) or self._repeated(shape, len(body))
        return PackedBody(template, _SEPARATOR.join(values)) if template is not None else body

    def _repeated(self, shape: tuple[tuple[bytes, ...], tuple[int, ...]], size: int) -> BodyTemplate | None:
        """The template of this shape, if a body had it before."""
        digest = hash(shape)
        if digest not in self._seen:
            if len(self._seen) >= self._seen_max:
                del self._seen[next(iter(self._seen))]
            self._seen[digest] = None
            return None
        template = self._templates[shape] = BodyTemplate(*shape, size)
        return template
