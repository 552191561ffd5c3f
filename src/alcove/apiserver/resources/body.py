"""Reads the object in a request's body and checks it against the expected kind."""

from __future__ import annotations

from typing import Any

from alcove.api.errors import BadRequest, TooLarge, UnsupportedMediaType
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.protobuf import decode as protobuf
from alcove.api.schema.body import parse_json, parse_yaml
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.prune import prune
from alcove.apiserver.call import ApiCall
from alcove.apiserver.computing import LARGE_BYTES
from alcove.apiserver.resources.options import field_validation
from alcove.apiserver.services import ApiServerServices

_JSON = frozenset({"", "application/json"})
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
PROTOBUF = "application/vnd.kubernetes.protobuf"
WARNINGS_MAX = 100
SMALL_BYTES_MAX = LARGE_BYTES
"""Size of bodies that are no objects to be stored: a Scale, a Binding, DeleteOptions."""


async def read(services: ApiServerServices, call: ApiCall) -> Object:
    """The object of a create or update."""
    obj: Object = await services.threads.for_size(
        call.identity.tenant, len(call.request.body), lambda: _read(call)
    )
    return obj


def _read(call: ApiCall) -> Object:
    kind = call.kind
    mode = field_validation(call)
    duplicates: list[str] | None = None if mode == "Ignore" else []
    value = parse(call, duplicates)
    obj = identified(value, kind.api_version, kind.kind)
    return checked(call, kind, obj, mode, duplicates or [])


def read_as(call: ApiCall, node: SchemaNode, api_version: str, kind: str) -> Object:
    """A body of another kind than the resource's: a Scale, a Binding, an Eviction."""
    _check_small(call)
    value = parse(call, None)
    return decode(node, identified(value, api_version, kind))


def _check_small(call: ApiCall) -> None:
    """Raises TooLarge for a body that takes long to parse."""
    if len(call.request.body) > SMALL_BYTES_MAX:
        raise TooLarge(f"the body of this request must not be larger than {SMALL_BYTES_MAX} bytes")


def parse_small(call: ApiCall) -> Any:
    """The body of a request whose body is always small, parsed."""
    _check_small(call)
    return parse(call, None)


def parse_small_json(call: ApiCall) -> Any:
    """A patch of something small, parsed."""
    _check_small(call)
    return parse_json(call.request.body)


def parse(call: ApiCall, duplicates: list[str] | None) -> Any:
    content_type = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in _JSON:
        return parse_json(call.request.body, duplicates)
    if content_type in _YAML:
        return parse_yaml(call.request.body, duplicates)
    if content_type == PROTOBUF:
        return protobuf.decode(call.request.body)
    raise UnsupportedMediaType(
        f'the body of the request was in an unknown format "{content_type}" - accepted media types include: '
        f"application/json, application/yaml, {PROTOBUF}"
    )


def identified(value: Any, api_version: str, kind: str) -> Object:
    """The value with `apiVersion` and `kind` set. Raises BadRequest if it is not an object or names another
    kind."""
    if not isinstance(value, dict):
        raise BadRequest(f"the body of the request must be one {kind} object, not {type(value).__name__}")
    object_kind, object_version = value.get("kind") or kind, value.get("apiVersion") or api_version
    if not isinstance(object_kind, str) or not isinstance(object_version, str):
        raise BadRequest("apiVersion and kind must be strings")
    if (object_kind, object_version) != (kind, api_version):
        raise BadRequest(
            f"the object provided is {object_version}, Kind={object_kind}, but this path takes {api_version}, Kind={kind}"
        )
    value["apiVersion"], value["kind"] = api_version, kind
    return value


def _custom(kind: Kind, obj: Object, unknown: list[str] | None) -> Object:
    """A custom resource: only its metadata is decoded as Go does; the rest is validated by the CRD's
    schema."""
    metadata = obj.setdefault("metadata", {})
    node = kind.schema.properties.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    if node is not None:
        inside: list[str] = []
        decode(node, metadata, unknown=inside)
        if unknown is not None:
            unknown += [f"metadata.{path}" for path in inside]
    prune(kind.schema, obj, unknown)
    return obj


def checked(
    call: ApiCall,
    kind: Kind,
    obj: Object,
    mode: str,
    duplicates: list[str],
    unknown_format: str = 'unknown field "{}"',
) -> Object:
    """The object without unknown fields: they are warnings, or a BadRequest in Strict mode."""
    unknown: list[str] = []
    messages = None if mode == "Ignore" else unknown
    obj = decode(kind.schema, obj, unknown=messages) if kind.definition else _custom(kind, obj, messages)
    errors = [unknown_format.format(path) for path in unknown] + duplicates
    if errors and mode == "Strict":
        raise BadRequest(
            f'{obj["kind"]} in version "{obj["apiVersion"].rpartition("/")[2]}" cannot be handled as a '
            f"{obj['kind']}: strict decoding error: {', '.join(errors)}"
        )
    call.warnings += errors[:WARNINGS_MAX]
    return obj
