"""Applies LimitRanges: sets the default requests and limits of containers, and checks the minimum and
maximum."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import orjson

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS
from alcove.api.schema.body import count_values
from alcove.apiserver.admission import limitchecks
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.reader import CacheReader

VALUES_MAX = 2_000
"""Values of all LimitRanges of a namespace: all of them are looked at for each container that is created there. A write that
makes them more is refused with 403."""
ENTRY_BYTES = 16
"""What one resource of a limit counts for one container when it is decided whether to compute in a thread."""

ANNOTATION = "kubernetes.io/limit-ranger"

_SIDES = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))

_Limits = Mapping[str, Sequence[Sequence[Object]]]
"""Namespace → the `spec.limits` of each of its LimitRanges."""


class LimitRanger(Plugin):
    def __init__(self, reader: CacheReader, threads: ComputeThreads) -> None:
        self._reader = reader
        self._threads = threads
        self._limits: DerivedCache[_Limits] = DerivedCache(reader, LIMIT_RANGES, self._collect)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource == PODS:
            # A pod's resources change only through its resize subresource.
            return (operation, subresource) in ((Operation.CREATE, ""), (Operation.UPDATE, "resize"))
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and resource in (PERSISTENT_VOLUME_CLAIMS, LIMIT_RANGES) and not subresource

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource == PODS and (limits := self._limits_for(attributes)):
            obj = attributes.obj
            assert obj is not None
            await self._compute(attributes, limits, partial(_fill_in_all, obj, limits))

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == LIMIT_RANGES:
            self._check_limit_range(attributes)
            return
        if limits := self._limits_for(attributes):
            await self._compute(attributes, limits, partial(_check_all, attributes, limits))

    async def _compute(
        self, attributes: Attributes, limits: Sequence[Sequence[Object]], compute: Callable[[], None]
    ) -> None:
        """Each resource of each limit is looked at for each container."""
        spec = (attributes.obj or {}).get("spec") or {}
        containers = sum(len(spec.get(field) or ()) for field, _ in _CONTAINERS) or 1
        entries = sum(len(field) for each in limits for limit in each for field in limit.values())
        await self._threads.for_size(attributes.tenant, containers * entries * ENTRY_BYTES, compute)

    def _check_limit_range(self, attributes: Attributes) -> None:
        """Raises Forbidden if the namespace's limits would be too many."""
        obj, old = attributes.obj, attributes.old
        assert obj is not None
        values = _values(obj)
        if old is not None and values <= _values(old):
            return
        stored = self._reader.list(attributes.tenant, LIMIT_RANGES, attributes.namespace)
        others = sum(_values(each) for each in stored if objects.name(each) != attributes.name)
        if others + values > VALUES_MAX:
            message = f"all limit ranges of a namespace can have at most {VALUES_MAX} values together"
            raise Forbidden.of(LIMIT_RANGES, attributes.name, message)

    def _limits_for(self, attributes: Attributes) -> Sequence[Sequence[Object]]:
        limits = self._limits.of(attributes.tenant)
        if not limits:
            return ()
        if attributes.old is not None and "deletionTimestamp" in attributes.old["metadata"]:
            return ()
        return limits.get(attributes.namespace, ())

    def _collect(self, tenant: TenantId) -> _Limits:
        by_namespace: defaultdict[str, list[Sequence[Object]]] = defaultdict(list)
        for limit_range in self._reader.list(tenant, LIMIT_RANGES):
            limits = objects.get(limit_range, "spec", "limits", default=())
            by_namespace[objects.namespace(limit_range)].append(limits)
        return dict(by_namespace)


def _values(limit_range: Object) -> int:
    return count_values(orjson.dumps(limit_range.get("spec")), VALUES_MAX + 1)


def _fill_in_all(pod: Object, limits: Sequence[Sequence[Object]]) -> None:
    for each in limits:
        fill_in(pod, each)


def _check_all(attributes: Attributes, limits: Sequence[Sequence[Object]]) -> None:
    spec = (attributes.obj or {}).get("spec") or {}
    check = limitchecks.check_pod if attributes.resource == PODS else limitchecks.check_claim
    for each in limits:
        if messages := check(spec, each):
            raise Forbidden.of(attributes.resource, attributes.name, _aggregate(messages))


def _aggregate(messages: list[str]) -> str:
    """Join messages as Kubernetes does: each once, in brackets."""
    texts = list(dict.fromkeys(messages))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def fill_in(pod: Object, limits: Sequence[Object]) -> None:
    """Apply the defaults of one LimitRange to the pod's containers, and list them in an annotation of the
    pod."""
    defaults = {side: _defaults(limits, field) for side, field, _ in _SIDES}
    if not any(defaults.values()):
        return
    notes: list[str] = []
    for field, description in _CONTAINERS:
        for container in pod["spec"].get(field) or ():
            notes += _fill_in_container(container, defaults, f"{description} {container.get('name', '')}")
    if notes:
        annotations = objects.metadata(pod).setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _defaults(limits: Sequence[Object], field: str) -> dict[str, str]:
    """The merged defaults; later limits of a range override earlier ones."""
    merged: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            merged.update(limit.get(field) or {})
    return merged


def _fill_in_container(
    container: Object, defaults: Mapping[str, dict[str, str]], description: str
) -> list[str]:
    notes: list[str] = []
    resources = container.setdefault("resources", {})
    for side, _, word in _SIDES:
        configured = resources.get(side) or {}
        missing = {name: amount for name, amount in defaults[side].items() if name not in configured}
        if missing:
            resources[side] = {**configured, **missing}
            notes.append(f"{', '.join(sorted(missing))} {word} for {description}")
    return notes
