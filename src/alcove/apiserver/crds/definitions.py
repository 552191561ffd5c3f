"""The strategy of the CRD kind itself: the registry's strategy, plus schema validation, plus the status.

A CRD's names are accepted in the write itself, so it is served as soon as it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from alcove.api import meta
from alcove.api.fields import FieldError
from alcove.api.ids import TenantId
from alcove.api.kind import Strategy
from alcove.api.objects import Object, get
from alcove.api.registry import KindRegistry
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.openapi3 import schema_errors
from alcove.apiserver.crds import sharing
from alcove.apiserver.crds.acceptance import accept
from alcove.apiserver.reader import CacheReader


def definition_strategy(
    registry: KindRegistry, reader: CacheReader, clock: Callable[[], float]
) -> Callable[[Strategy], Strategy]:
    """Extends the registry's strategy of CRDs."""
    metadata = registry.object_meta

    def set_status(crd: Object) -> None:
        tenant = TenantId(get(crd, "metadata", "tenant", default=""))
        others = sharing.served(reader, tenant)
        crd["status"] = accept(crd, others, registry.all(), meta.format_time(clock()))

    def extend(stock: Strategy) -> Strategy:
        def create(crd: Object) -> None:
            stock.prepare_create(crd)
            set_status(crd)

        def update(new: Object, old: Object) -> None:
            stock.prepare_update(new, old)
            set_status(new)

        def validate_create(crd: Object) -> Sequence[FieldError]:
            return [*stock.validate_create(crd), *version_faults(crd, None, metadata)]

        def validate_update(new: Object, old: Object) -> Sequence[FieldError]:
            return [*stock.validate_update(new, old), *version_faults(new, old, metadata)]

        return replace(
            stock,
            prepare_create=create,
            prepare_update=update,
            validate_create=validate_create,
            validate_update=validate_update,
        )

    return extend


def version_faults(crd: Object, old: Object | None, metadata: SchemaNode) -> list[FieldError]:
    """Validation errors of the schemas of a CRD's versions. Unchanged schemas are not checked again."""
    old_versions = (
        {each.get("name"): each for each in get(old, "spec", "versions", default=())} if old else {}
    )
    errors: list[FieldError] = []
    for index, version in enumerate(get(crd, "spec", "versions", default=())):
        schema = get(version, "schema", "openAPIV3Schema")
        before = old_versions.get(version.get("name"))
        if schema is None or (before is not None and _same_checks(version, before)):
            continue
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        has_status = get(version, "subresources", "status") is not None
        errors += schema_errors(schema, path, metadata, has_status=has_status)
    return errors


def _same_checks(version: Object, before: Object) -> bool:
    has_status, had_status = (get(each, "subresources", "status") is not None for each in (version, before))
    return version.get("schema") == before.get("schema") and has_status is had_status
