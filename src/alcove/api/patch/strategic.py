"""Strategic merge patch: maps merge, lists merge by the merge key their schema declares.

Directives, as Kubernetes documents them: `$patch: replace | delete | merge` in a map or a list's
element, `$retainKeys`, `$setElementOrder/LIST`, `$deleteFromPrimitiveList/LIST`. Custom resources have no
strategies: the caller refuses this patch for them (415).

Where Kubernetes drops a `$patch: replace` map whose target does not exist yet, its content is kept here.
"""

from typing import Any

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.patch import elementorder
from alcove.api.patch.document import bounded, copy, rejected, type_name
from alcove.api.patch.elementorder import identity, merge_key_of
from alcove.api.schema.node import SchemaNode, SchemaType

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ORDER = "$setElementOrder/"
DELETE_FROM = "$deleteFromPrimitiveList/"


@bounded
def apply(obj: Object, patch: Any, node: SchemaNode) -> Object:
    """Return `obj` patched, as a new object. `patch` is the decoded body, `node` the schema of its kind.

    Raises BadRequest for a patch that is malformed, Invalid for lists of lists.
    """
    if type(patch) is not dict:
        raise BadRequest(
            f"error decoding patch: a strategic merge patch must be an object, got {type_name(patch)}"
        )
    return _merge_map(copy(obj), copy(patch), node)


def _merge_map(target: Object, patch: Object, node: SchemaNode | None) -> Object:
    """Merge `patch` into `target` in place; returns another map if the patch replaces it as a whole."""
    match patch.pop(DIRECTIVE, "merge"):
        case "merge":
            pass
        case "replace":
            return _plain_map(patch)
        case "delete":
            return {}
        case unknown:
            raise BadRequest(f"unknown patch type: {unknown} in map: {_shown(patch)}")
    _retain_keys(target, patch)
    for field in [field for field in patch if field.startswith(SET_ORDER)]:
        _merge_ordered_list(target, patch, field.removeprefix(SET_ORDER), node)
    for field, value in patch.items():
        if not field.startswith(DELETE_FROM):
            _merge_field(target, field, value, _child(node, field))
    for field, value in patch.items():
        if field.startswith(DELETE_FROM):
            _delete_from(target, field.removeprefix(DELETE_FROM), value)
    return target


def _merge_field(target: Object, field: str, value: Any, node: SchemaNode | None) -> None:
    current = target.get(field)
    if type(value) is dict and type(current) is dict:
        replaces = node is not None and "replace" in node.patch_strategy and DIRECTIVE not in value
        target[field] = _plain_map(value) if replaces else _merge_map(current, value, node)
    elif type(value) is list and type(current) is list:
        target[field] = _merge_list(current, value, node)
    elif value is None or _deletes(value):
        target.pop(field, None)
    else:
        target[field] = _plain(value)


def _child(node: SchemaNode | None, field: str) -> SchemaNode | None:
    if node is None:
        return None
    return node.properties.get(field, node.values)


# Lists.


def _merge_list(current: list[Any], patch: list[Any], node: SchemaNode | None) -> list[Any]:
    if node is None or node.type is not SchemaType.LIST or "merge" not in node.patch_strategy:
        return [_plain(value) for value in patch]
    if not current and not patch:
        return current
    if not _holds_maps([*current, *patch]):
        return elementorder.arrange(_unique([*current, *patch]), patch, current, "")
    if node.merge_key is None:
        raise BadRequest(f"cannot merge lists without merge key for {node.name or 'list'}")
    current, patch = _apply_special(current, patch, node.merge_key)
    merged = _merge_maps(list(current), patch, node.merge_key, node.items)
    return elementorder.arrange(merged, patch, current, node.merge_key)


def _apply_special(current: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply the elements with a `$patch` directive; returns what remains of both lists."""
    ordinary = [element for element in patch if DIRECTIVE not in element]
    replaces = False
    for element in patch:
        match element.get(DIRECTIVE):
            case None:
                pass
            case "delete":
                deleted_key = merge_key_of(element, key)
                current = [item for item in current if identity(item.get(key)) != deleted_key]
            case "replace":
                replaces = True
            case "merge":
                raise BadRequest("merging lists cannot yet be specified in the patch")
            case unknown:
                raise BadRequest(f"unknown patch type: {unknown} in map: {_shown(element)}")
    return ([_plain(element) for element in ordinary], []) if replaces else (current, ordinary)


def _merge_maps(items: list[Any], patch: list[Any], key: str, node: SchemaNode | None) -> list[Any]:
    positions: dict[Any, int] = {}
    for number, item in enumerate(items):
        positions.setdefault(identity(item.get(key)), number)
    for element in patch:
        name = merge_key_of(element, key)
        position = positions.get(name)
        if position is None:
            positions[name] = len(items)
            items.append(_plain_map(dict(element)))
        else:
            items[position] = _merge_map(items[position], dict(element), node)
    return items


def _merge_ordered_list(target: Object, patch: Object, field: str, node: SchemaNode | None) -> None:
    """Merge a list that comes with a `$setElementOrder`, and remove both from the patch."""
    order = patch.pop(SET_ORDER + field)
    patch_list = patch.pop(field, [])
    current = target.get(field, [])
    if type(order) is not list or type(patch_list) is not list:
        raise BadRequest("invalid patch format of setElementOrder list")
    if type(current) is not list:
        raise BadRequest(f"expected {field} to be an array, but it is {type_name(current)}")
    if field not in target and not patch_list:
        return
    child = _child(node, field)
    key = (child.merge_key if child is not None else None) or ""
    elementorder.check(patch_list, order, key)
    merged = _merge_list(current, patch_list, child) if patch_list else current
    target[field] = elementorder.arrange(merged, order, current, key)


def _delete_from(target: Object, field: str, values: Any) -> None:
    if type(values) is not list:
        raise BadRequest("invalid patch format of primitive list")
    current = target.get(field)
    if type(current) is list:
        deleted = {identity(value) for value in values}
        target[field] = [value for value in current if type(value) is dict or identity(value) not in deleted]


def _retain_keys(target: Object, patch: Object) -> None:
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if type(retained) is not list:
        raise BadRequest("invalid patch format of retainKeys")
    for field, value in patch.items():
        if value is not None and field not in retained and not field.startswith((SET_ORDER, DELETE_FROM)):
            raise BadRequest("invalid patch format of retainKeys")
    for field in [field for field in target if field not in retained]:
        del target[field]


def _holds_maps(values: list[Any]) -> bool:
    """Whether these are lists of maps. Raises for mixed types and for lists of lists."""
    types = {dict if type(value) is dict else list if type(value) is list else str for value in values}
    if list in types:
        raise rejected("lists of lists are not supported")
    if len(types) > 1:
        raise BadRequest(f"list element types are not identical: {_shown(values)}")
    return dict in types


def _unique(values: list[Any]) -> list[Any]:
    return list({identity(value): value for value in values}.values())


# Values that the object does not have yet: added without the directives of the patch.


def _plain(value: Any) -> Any:
    if type(value) is dict:
        return _plain_map(value)
    if type(value) is list:
        return [_plain(part) for part in value if not _deletes(part)]
    return value


def _plain_map(value: Object) -> Object:
    return {
        field: _plain(part)
        for field, part in value.items()
        if part is not None and not _deletes(part) and not _is_directive(field)
    }


def _deletes(value: Any) -> bool:
    return type(value) is dict and value.get(DIRECTIVE) == "delete"


def _is_directive(field: str) -> bool:
    return field in (DIRECTIVE, RETAIN_KEYS) or field.startswith((SET_ORDER, DELETE_FROM))


def _shown(value: Any) -> str:
    return elementorder.shown(value)
