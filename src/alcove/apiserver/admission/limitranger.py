"""Applies LimitRanges: sets the default requests and limits of containers, and checks the minimum and
maximum."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS
from alcove.apiserver.admission import limitchecks
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.reader import CacheReader

ANNOTATION = "kubernetes.io/limit-ranger"

_SIDES = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))

_Limits = Mapping[str, Sequence[Sequence[Object]]]
"""Namespace → the `spec.limits` of each of its LimitRanges."""


class LimitRanger(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._limits: DerivedCache[_Limits] = DerivedCache(reader, LIMIT_RANGES, self._collect)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource == PODS:
            # A pod's resources change only through its resize subresource.
            return (operation, subresource) in ((Operation.CREATE, ""), (Operation.UPDATE, "resize"))
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and resource == PERSISTENT_VOLUME_CLAIMS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource == PODS and (limits := self._limits_for(attributes)):
            assert attributes.obj is not None
            for each in limits:
                fill_in(attributes.obj, each)

    async def validate(self, attributes: Attributes) -> None:
        limits = self._limits_for(attributes)
        if not limits:
            return
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        check = limitchecks.check_pod if attributes.resource == PODS else limitchecks.check_claim
        for each in limits:
            if messages := check(spec, each):
                raise Forbidden.of(attributes.resource, attributes.name, _aggregate(messages))

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
