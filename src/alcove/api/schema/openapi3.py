"""The complete check of a CRD version's `openAPIV3Schema`: structure, keywords, defaults, rules."""

from typing import Any

from alcove.api.fields import FieldError, forbidden, invalid
from alcove.api.schema.defaults import default_errors
from alcove.api.schema.keywords import keyword_errors
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.structure import structure_errors
from alcove.api.schema.wellformed import form_errors

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
"""Keywords allowed at the root if status is a subresource, by the names in Kubernetes' message."""


def schema_errors(schema: Schema, path: str, metadata: SchemaNode, *, has_status: bool) -> list[FieldError]:
    """Return the errors of a schema at `path` (`spec.versions[0].schema.openAPIV3Schema`)."""
    malformed = form_errors(schema, path)
    if malformed:
        return malformed
    errors = _root_errors(schema, path, has_status)
    errors += structure_errors(schema, path) + keyword_errors(schema, path) + _rule_shape_errors(schema, path)
    errors = errors or default_errors(schema, path, metadata)
    return errors or _rule_compile_errors(schema, path)


def _root_errors(schema: Schema, path: str, has_status: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if has_status:
        others = [keyword for keyword, value in schema.items() if value and keyword not in _AT_ROOT]
        if others:
            allowed = " ".join(_AT_ROOT.values())
            message = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
            errors.append(invalid(path, {keyword: schema[keyword] for keyword in others}, message))
        elif schema.get("type") not in (None, "", "object"):
            message = (
                'only "object" is allowed as the type at the root of the schema if the status subresource '
                "is enabled"
            )
            errors.append(invalid(f"{path}.type", schema["type"], message))
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return errors


def has_rules(schema: Any) -> bool:
    """Whether a schema has CEL rules anywhere (outside alternatives, where they are not allowed)."""
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


def _rule_shape_errors(schema: Schema, path: str) -> list[FieldError]:
    if not has_rules(schema):
        return []
    from alcove.api.schema.rulechecks import shape_errors  # so that CEL is loaded only if used

    return shape_errors(schema, path)


def _rule_compile_errors(schema: Schema, path: str) -> list[FieldError]:
    if not has_rules(schema):
        return []
    from alcove.api.schema.rulechecks import compile_errors, default_rule_errors

    return compile_errors(schema, path) or default_rule_errors(schema, path)
