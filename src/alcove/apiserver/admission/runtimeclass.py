"""A pod's RuntimeClass must exist, and brings its overhead and its nodes."""

import copy

from alcove.api.errors import Forbidden, Invalid
from alcove.api.fields import invalid
from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import Reader

PODS = GroupResource("", "pods")
CLASSES = GroupResource("node.k8s.io", "runtimeclasses")


class RuntimeClass(Plugin):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == PODS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.obj
        assert pod is not None
        chosen = self._class(attributes, pod)
        if chosen is None:
            return
        _set_overhead(attributes, pod["spec"], chosen)
        _set_nodes(attributes, pod["spec"], chosen)

    def _class(self, attributes: Attributes, pod: Object) -> Object | None:
        name = pod["spec"].get("runtimeClassName")
        if not name:
            if pod["spec"].get("overhead"):
                raise Forbidden.of(
                    PODS,
                    attributes.name,
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
                )
            return None
        chosen = self._reader.get(attributes.tenant, CLASSES, "", name)
        if chosen is None:
            raise Forbidden.of(PODS, attributes.name, f'pod rejected: RuntimeClass "{name}" not found')
        return chosen


def _set_overhead(attributes: Attributes, spec: Object, chosen: Object) -> None:
    overhead = (chosen.get("overhead") or {}).get("podFixed")
    given = spec.get("overhead")
    if given and given != (overhead or {}):
        told = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise Forbidden.of(PODS, attributes.name, told)
    if overhead:
        spec["overhead"] = dict(overhead)


def _set_nodes(attributes: Attributes, spec: Object, chosen: Object) -> None:
    scheduling = chosen.get("scheduling") or {}
    selector = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            fault = invalid(
                "spec.nodeSelector",
                selector,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}",
            )
            raise Invalid.of("", "Pod", attributes.name, [fault])
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**selector, **scheduling["nodeSelector"]}
    known = spec.get("tolerations") or []
    added = [copy.deepcopy(each) for each in scheduling.get("tolerations") or () if each not in known]
    if added:
        spec["tolerations"] = [*known, *added]
