"""Converts a write's objects to the version that a webhook's or policy's rules name, and back."""

from __future__ import annotations

import copy

from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation


async def at(attributes: Attributes, kind: Kind, obj: Object | None) -> Object | None:
    """One of the write's objects at the version of `kind`; a copy unless it already has that version."""
    if obj is None or attributes.operation is Operation.CONNECT:
        return obj  # The options of a connection have no version.
    if (obj["apiVersion"], obj["kind"]) == (kind.api_version, kind.kind):
        return obj
    if kind.convert is not None:
        return (await kind.convert([obj], kind.api_version))[0]
    changed = copy.deepcopy(obj)
    if kind.from_storage is not None:
        changed = kind.from_storage(changed)
    changed["apiVersion"], changed["kind"] = kind.api_version, kind.kind
    return changed


async def back(working: Kind, kind: Kind, obj: Object) -> Object:
    """The object, which has the version of `kind`, at the version at which the write is processed."""
    if (kind.api_version, kind.kind) == (working.api_version, working.kind):
        return obj
    if kind.convert is not None:
        return (await kind.convert([obj], working.api_version))[0]
    if kind.to_storage is not None:
        obj = kind.to_storage(obj)
    obj["apiVersion"], obj["kind"] = working.api_version, working.kind
    return obj
