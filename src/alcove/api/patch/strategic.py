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
    """`obj` patched, as a new object. `patch` is the decoded body, `node` the schema of its kind.

    Raises BadRequest for a patch that is malformed, Invalid for lists of lists.
    """
    if type(patch) is not dict:
        raise BadRequest(
            f"error decoding patch: a strategic merge patch must be an object, got {type_name(patch)}"
        )
    return _merge_map(copy(obj), copy(patch), node)


def _merge_map(target: Object, patch: Object, node: SchemaNode | None) -> Object:
    """`target` with `patch` merged into it, in place; another map where the patch replaces it whole."""
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
    there = target.get(field)
    if type(value) is dict and type(there) is dict:
        replaces = node is not None and "replace" in node.patch_strategy and DIRECTIVE not in value
        target[field] = _plain_map(value) if replaces else _merge_map(there, value, node)
    elif type(value) is list and type(there) is list:
        target[field] = _merge_list(there, value, node)
    elif value is None or _deletes(value):
        target.pop(field, None)
    else:
        target[field] = _plain(value)


def _child(node: SchemaNode | None, field: str) -> SchemaNode | None:
    if node is None:
        return None
    return node.properties.get(field, node.values)


# Lists.


def _merge_list(there: list[Any], patch: list[Any], node: SchemaNode | None) -> list[Any]:
    if node is None or node.type is not SchemaType.LIST or "merge" not in node.patch_strategy:
        return [_plain(value) for value in patch]
    if not there and not patch:
        return there
    if not _holds_maps([*there, *patch]):
        return elementorder.arrange(_unique([*there, *patch]), patch, there, "")
    if node.merge_key is None:
        raise BadRequest(f"cannot merge lists without merge key for {node.name or 'list'}")
    there, patch = _apply_special(there, patch, node.merge_key)
    merged = _merge_maps(list(there), patch, node.merge_key, node.items)
    return elementorder.arrange(merged, patch, there, node.merge_key)


def _apply_special(there: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carries out the elements with a `$patch` directive; returns what is left of both lists."""
    ordinary = [element for element in patch if DIRECTIVE not in element]
    replaces = False
    for element in patch:
        match element.get(DIRECTIVE):
            case None:
                pass
            case "delete":
                gone = merge_key_of(element, key)
                there = [item for item in there if identity(item.get(key)) != gone]
            case "replace":
                replaces = True
            case "merge":
                raise BadRequest("merging lists cannot yet be specified in the patch")
            case unknown:
                raise BadRequest(f"unknown patch type: {unknown} in map: {_shown(element)}")
    return ([_plain(element) for element in ordinary], []) if replaces else (there, ordinary)


def _merge_maps(items: list[Any], patch: list[Any], key: str, node: SchemaNode | None) -> list[Any]:
    places: dict[Any, int] = {}
    for number, item in enumerate(items):
        places.setdefault(identity(item.get(key)), number)
    for element in patch:
        name = merge_key_of(element, key)
        place = places.get(name)
        if place is None:
            places[name] = len(items)
            items.append(_plain_map(dict(element)))
        else:
            items[place] = _merge_map(items[place], dict(element), node)
    return items


def _merge_ordered_list(target: Object, patch: Object, field: str, node: SchemaNode | None) -> None:
    """Merges a list that comes with a `$setElementOrder`, and takes both out of the patch."""
    order = patch.pop(SET_ORDER + field)
    given = patch.pop(field, [])
    there = target.get(field, [])
    if type(order) is not list or type(given) is not list:
        raise BadRequest("invalid patch format of setElementOrder list")
    if type(there) is not list:
        raise BadRequest(f"expected {field} to be an array, but it is {type_name(there)}")
    if field not in target and not given:
        return
    child = _child(node, field)
    key = (child.merge_key if child is not None else None) or ""
    elementorder.check(given, order, key)
    merged = _merge_list(there, given, child) if given else there
    target[field] = elementorder.arrange(merged, order, there, key)


def _delete_from(target: Object, field: str, values: Any) -> None:
    if type(values) is not list:
        raise BadRequest("invalid patch format of primitive list")
    there = target.get(field)
    if type(there) is list:
        gone = {identity(value) for value in values}
        target[field] = [value for value in there if type(value) is dict or identity(value) not in gone]


def _retain_keys(target: Object, patch: Object) -> None:
    if RETAIN_KEYS not in patch:
        return
    kept = patch.pop(RETAIN_KEYS)
    if type(kept) is not list:
        raise BadRequest("invalid patch format of retainKeys")
    for field, value in patch.items():
        if value is not None and field not in kept and not field.startswith((SET_ORDER, DELETE_FROM)):
            raise BadRequest("invalid patch format of retainKeys")
    for field in [field for field in target if field not in kept]:
        del target[field]


def _holds_maps(values: list[Any]) -> bool:
    """Whether these are lists of maps; a mixture is refused, as are lists of lists."""
    types = {dict if type(value) is dict else list if type(value) is list else str for value in values}
    if list in types:
        raise rejected("lists of lists are not supported")
    if len(types) > 1:
        raise BadRequest(f"list element types are not identical: {_shown(values)}")
    return dict in types


def _unique(values: list[Any]) -> list[Any]:
    return list({identity(value): value for value in values}.values())


# Values that the object does not have yet: taken without what is meant for the merge only.


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
