"""The whole check of a CRD version's `openAPIV3Schema`: structure, keywords, defaults, rules."""

from typing import Any

from alcove.api.fields import FieldError, forbidden, invalid
from alcove.api.schema.defaults import default_faults
from alcove.api.schema.keywords import keyword_faults
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.structure import structure_faults
from alcove.api.schema.wellformed import form_faults

Schema = dict[str, Any]

_AT_ROOT = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
"""What may stand at the root where status is a subresource, by the names Kubernetes tells."""


def schema_faults(schema: Schema, path: str, metadata: SchemaNode, *, has_status: bool) -> list[FieldError]:
    """What is wrong with a schema at `path` (`spec.versions[0].schema.openAPIV3Schema`)."""
    malformed = form_faults(schema, path)
    if malformed:
        return malformed
    faults = _root_faults(schema, path, has_status)
    faults += structure_faults(schema, path) + keyword_faults(schema, path) + _rule_shape_faults(schema, path)
    faults = faults or default_faults(schema, path, metadata)
    return faults or _rule_compile_faults(schema, path)


def _root_faults(schema: Schema, path: str, has_status: bool) -> list[FieldError]:
    faults: list[FieldError] = []
    if has_status:
        others = [keyword for keyword, value in schema.items() if value and keyword not in _AT_ROOT]
        if others:
            allowed = " ".join(_AT_ROOT.values())
            message = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
            faults.append(invalid(path, {keyword: schema[keyword] for keyword in others}, message))
        elif schema.get("type") not in (None, "", "object"):
            message = (
                'only "object" is allowed as the type at the root of the schema if the status subresource '
                "is enabled"
            )
            faults.append(invalid(f"{path}.type", schema["type"], message))
    if schema.get("nullable"):
        faults.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return faults


def has_rules(schema: Any) -> bool:
    """Whether CEL rules stand anywhere in a schema (outside of alternatives, where none may)."""
    if not isinstance(schema, dict):
        return False
    if schema.get("x-kubernetes-validations"):
        return True
    parts = [
        schema.get("items"),
        schema.get("additionalProperties"),
        *(schema.get("properties") or {}).values(),
    ]
    return any(map(has_rules, parts))


def _rule_shape_faults(schema: Schema, path: str) -> list[FieldError]:
    if not has_rules(schema):
        return []
    from alcove.api.schema.rulechecks import shape_faults  # CEL is loaded only where it is used

    return shape_faults(schema, path)


def _rule_compile_faults(schema: Schema, path: str) -> list[FieldError]:
    if not has_rules(schema):
        return []
    from alcove.api.schema.rulechecks import compile_faults, default_rule_faults

    return compile_faults(schema, path) or default_rule_faults(schema, path)
