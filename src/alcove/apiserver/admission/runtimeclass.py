"""Requires a pod's RuntimeClass to exist, and applies its overhead and its scheduling constraints."""

import copy
from collections.abc import Sequence

from alcove.api import quantity
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.api.quantity import QuantityError
from alcove.api.resources import PODS, RUNTIME_CLASSES
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import CacheReader


class RuntimeClass(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == PODS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj["spec"]
        chosen = self._class(attributes, spec)
        if chosen is None:
            return
        overhead = _overhead(chosen)
        if overhead:
            if spec.get("overhead") and not _are_equal(spec["overhead"], overhead):
                raise _mismatch(attributes)
            spec["overhead"] = dict(overhead)
        _set_nodes(attributes, spec, chosen.get("scheduling") or {})

    async def validate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        spec = attributes.obj["spec"]
        chosen = self._class(attributes, spec)
        overhead = _overhead(chosen) if chosen is not None else None
        if overhead is None:
            if spec.get("overhead"):
                message = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise Forbidden.of(PODS, attributes.name, message)
        elif not _are_equal(spec.get("overhead") or {}, overhead):
            raise _mismatch(attributes)

    def _class(self, attributes: Attributes, spec: Object) -> Object | None:
        name = spec.get("runtimeClassName")
        if not name:
            return None
        chosen = self._reader.get(attributes.tenant, RUNTIME_CLASSES, "", name)
        if chosen is None:
            raise Forbidden.of(PODS, attributes.name, f'pod rejected: RuntimeClass "{name}" not found')
        return chosen


def _overhead(chosen: Object) -> dict[str, str] | None:
    overhead = chosen.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _are_equal(left: dict[str, str], right: dict[str, str]) -> bool:
    """Compare as quantities. Invalid quantities are equal to nothing; validation reports them."""
    try:
        amounts = [{name: quantity.of(value) for name, value in each.items()} for each in (left, right)]
    except QuantityError:
        return False
    return amounts[0] == amounts[1]


def _mismatch(attributes: Attributes) -> Forbidden:
    message = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    return Forbidden.of(PODS, attributes.name, message)


def _set_nodes(attributes: Attributes, spec: Object, scheduling: Object) -> None:
    selector = spec.get("nodeSelector") or {}
    required = scheduling.get("nodeSelector") or {}
    for key, value in required.items():
        if selector.get(key, value) != value:
            message = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise Forbidden.of(PODS, attributes.name, message)
    if required:
        spec["nodeSelector"] = {**selector, **required}
    if scheduling.get("tolerations"):
        spec["tolerations"] = merged(spec.get("tolerations") or (), scheduling["tolerations"])


def merged(first: Sequence[Object], second: Sequence[Object]) -> list[Object]:
    """Both lists of tolerations, without those that another toleration covers."""
    everything = [*first, *(copy.deepcopy(each) for each in second)]
    result: list[Object] = []
    for index, each in enumerate(everything):
        later = everything[index + 1 :]
        if any(covers(other, each) for other in result):
            continue
        if any(other != each and covers(other, each) for other in later):
            continue
        result.append(each)
    return result


def covers(wide: Object, narrow: Object) -> bool:
    """Whether `wide` tolerates everything that `narrow` does."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    if wide.get("key", "") != narrow.get("key", "") and (wide.get("key") or operator != "Exists"):
        return False
    if wide.get("effect") and wide["effect"] != narrow.get("effect", ""):
        return False
    seconds = wide.get("tolerationSeconds")
    if wide.get("effect") == "NoExecute" and seconds is not None:
        narrow_seconds = narrow.get("tolerationSeconds")
        if narrow_seconds is None or narrow_seconds > seconds:
            return False
    if operator == "Exists":
        return True
    same = (narrow.get("operator") or "Equal") == "Equal"
    return operator == "Equal" and same and wide.get("value", "") == narrow.get("value", "")
