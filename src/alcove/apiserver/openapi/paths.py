"""The paths of kinds and their operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alcove.api.ids import GroupVersionKind
from alcove.api.kind import Kind, Scope, Subresource
from alcove.api.objects import Object
from alcove.apiserver.openapi.schemas import Dialect, list_name_of, name_of

_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_ACTIONS = {"create": "post", "update": "put"}
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


def _query(name: str, kind: str, description: str) -> Object:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind}}


_DRY_RUN = _query("dryRun", "string", "`All`: validate the request without storing the object.")
_MANAGER = _query("fieldManager", "string", "Name of the field manager that makes the change.")
_VALIDATION = _query(
    "fieldValidation", "string", "Handling of unknown and duplicate fields: Ignore, Warn or Strict."
)
_FORCE = _query("force", "boolean", "Whether apply takes ownership of fields of other managers.")
_WRITE = [_DRY_RUN, _MANAGER, _VALIDATION]
_LIST = [
    _query("labelSelector", "string", "Selector by labels."),
    _query("fieldSelector", "string", "Selector by fields."),
    _query("limit", "integer", "Maximum number of objects; the response has a continue token for the rest."),
    _query("continue", "string", "Continue token of an earlier response."),
    _query("resourceVersion", "string", "Resource version of the response, exact or minimum."),
    _query("resourceVersionMatch", "string", "Meaning of resourceVersion: Exact or NotOlderThan."),
    _query("timeoutSeconds", "integer", "Duration of a watch."),
    _query("watch", "boolean", "Watch for changes, as a stream of events."),
    _query("allowWatchBookmarks", "boolean", "Whether a watch sends bookmark events."),
    _query("sendInitialEvents", "boolean", "Whether a watch starts with events for existing objects."),
]
_DELETE = [
    _DRY_RUN,
    _query("gracePeriodSeconds", "integer", "Seconds before the object is deleted."),
    _query("propagationPolicy", "string", "Deletion of dependents: Orphan, Background or Foreground."),
]
_PARAMETERS: dict[str, list[Object]] = {
    "get": [],
    "list": _LIST,
    "create": _WRITE,
    "update": _WRITE,
    "patch": [*_WRITE, _FORCE],
    "delete": _DELETE,
    "deletecollection": [*_LIST, *_DELETE],
}


def build(kinds: Iterable[Kind]) -> dict[str, Object]:
    """The paths of these kinds in OpenAPI 3."""
    paths: dict[str, Object] = {}
    for kind in kinds:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        collection = (
            root + ("/namespaces/{namespace}" if kind.scope is Scope.NAMESPACE else "") + f"/{kind.resource}"
        )
        _add(paths, collection, kind, "", ("list", "create", "deletecollection"), kind.verbs)
        _add(paths, collection + "/{name}", kind, "", ("get", "update", "patch", "delete"), kind.verbs)
        if kind.scope is Scope.NAMESPACE:
            _add(paths, f"{root}/{kind.resource}", kind, "", ("list",), kind.verbs, suffix="ForAllNamespaces")
        for sub in kind.subresources:
            path = collection + "/{name}/" + sub.name
            _add(paths, path, kind, sub.name, ("get", "create", "update", "patch"), sub.verbs, sub)
    return paths


def _add(
    paths: dict[str, Object],
    path: str,
    kind: Kind,
    subresource: str,
    candidates: Iterable[str],
    verbs: Iterable[str],
    sub: Subresource | None = None,
    suffix: str = "",
) -> None:
    item: Object = {
        _METHODS[verb]: _operation(verb, kind, subresource, sub, suffix)
        for verb in candidates
        if verb in tuple(verbs)
    }
    if not item:
        return
    parameters = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    if parameters:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in parameters
        ]
    paths[path] = item


def _operation(verb: str, kind: Kind, subresource: str, sub: Subresource | None, suffix: str) -> Object:
    gvk = sub.kind if sub else kind.gvk
    shown = "".join(part.capitalize() for part in (kind.group.partition(".")[0] or "core", kind.version))
    where = "Namespaced" if kind.scope is Scope.NAMESPACE and not suffix else ""
    operation: Object = {
        "tags": [f"{kind.group.partition('.')[0] or 'core'}_{kind.version}"],
        "operationId": f"{verb}{shown}{where}{kind.kind}{subresource.capitalize()}{suffix}",
        "description": f"{verb} {kind.resource}{'/' + subresource if subresource else ''}",
        "parameters": _PARAMETERS[verb],
        "responses": {"200": _response(verb, kind, gvk), "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
    }
    if verb in ("create", "update"):
        operation["requestBody"] = {"required": True, "content": {"application/json": _content(kind, gvk)}}
    elif verb == "patch":
        forms = _PATCHES if kind.definition else (*_PATCHES[:2], _PATCHES[3])
        operation["requestBody"] = {"required": True, "content": {form: {"schema": {}} for form in forms}}
    return operation


def _content(kind: Kind, gvk: GroupVersionKind) -> Object:
    if gvk != kind.gvk:
        return {"schema": {"type": "object"}}
    return {"schema": {"$ref": Dialect.V3.value + name_of(kind)}}


def _response(verb: str, kind: Kind, gvk: GroupVersionKind) -> Object:
    content: Any = _content(kind, gvk)
    if verb == "list":
        content = {"schema": {"$ref": Dialect.V3.value + list_name_of(kind)}}
    elif verb in ("delete", "deletecollection"):
        content = {"schema": {"$ref": f"{Dialect.V3.value}io.k8s.apimachinery.pkg.apis.meta.v1.Status"}}
    return {"description": "OK", "content": {"application/json": content}}


def to_v2(paths: dict[str, Object]) -> dict[str, Object]:
    """Converts paths to OpenAPI 2."""
    return {path: {method: _v2(value) for method, value in item.items()} for path, item in paths.items()}


def _v2(value: Any) -> Any:
    if isinstance(value, list):
        return [_v2_parameter(parameter) for parameter in value]
    operation = {field: each for field, each in value.items() if field not in ("requestBody", "responses")}
    operation["parameters"] = [_v2_parameter(parameter) for parameter in value["parameters"]]
    if "requestBody" in value:
        content = value["requestBody"]["content"]
        operation["consumes"] = list(content)
        schema = next(iter(content.values()))["schema"] or {"type": "object"}
        operation["parameters"].append(
            {"name": "body", "in": "body", "required": True, "schema": _v2_schema(schema)}
        )
    operation["produces"] = ["application/json"]
    operation["responses"] = {code: _v2_response(response) for code, response in value["responses"].items()}
    return operation


def _v2_parameter(parameter: Object) -> Object:
    flat = {field: value for field, value in parameter.items() if field != "schema"}
    return {**flat, "type": parameter["schema"]["type"]}


def _v2_response(response: Object) -> Object:
    converted: Object = {"description": response["description"]}
    if "content" in response:
        converted["schema"] = _v2_schema(response["content"]["application/json"]["schema"])
    return converted


def _v2_schema(schema: Object) -> Object:
    if "$ref" not in schema:
        return schema
    return {"$ref": Dialect.V2.value + schema["$ref"].removeprefix(Dialect.V3.value)}
