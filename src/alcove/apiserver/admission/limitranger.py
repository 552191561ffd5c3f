"""LimitRanges: what containers get if they ask for nothing, and the least and most that anything may ask for."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.admission import limitchecks
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.reader import CacheReader

PODS = GroupResource("", "pods")
CLAIMS = GroupResource("", "persistentvolumeclaims")
LIMIT_RANGES = GroupResource("", "limitranges")
ANNOTATION = "kubernetes.io/limit-ranger"

_SIDES = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))
_CONTAINERS = (("containers", "container"), ("initContainers", "init container"))

_Limits = Mapping[str, Sequence[Sequence[Object]]]
"""By namespace: of each LimitRange its list of limits."""


class LimitRanger(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._limits: DerivedCache[_Limits] = DerivedCache(reader, LIMIT_RANGES, self._collect)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource == PODS:
            # A pod's resources change only through its resize subresource.
            return (operation, subresource) in ((Operation.CREATE, ""), (Operation.UPDATE, "resize"))
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and resource == CLAIMS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource == PODS and (limits := self._of(attributes)):
            assert attributes.obj is not None
            for each in limits:
                fill_in(attributes.obj, each)

    async def validate(self, attributes: Attributes) -> None:
        limits = self._of(attributes)
        if not limits:
            return
        assert attributes.obj is not None
        spec = attributes.obj.get("spec") or {}
        check = limitchecks.check_pod if attributes.resource == PODS else limitchecks.check_claim
        for each in limits:
            if messages := check(spec, each):
                raise Forbidden.of(attributes.resource, attributes.name, _aggregate(messages))

    def _of(self, attributes: Attributes) -> Sequence[Sequence[Object]]:
        limits = self._limits.of(attributes.tenant)
        if not limits:
            return ()
        if attributes.old is not None and "deletionTimestamp" in attributes.old["metadata"]:
            return ()
        return limits.get(attributes.namespace, ())

    def _collect(self, tenant: TenantId) -> _Limits:
        found: defaultdict[str, list[Sequence[Object]]] = defaultdict(list)
        for limit_range in self._reader.list(tenant, LIMIT_RANGES):
            limits = objects.get(limit_range, "spec", "limits", default=())
            found[objects.namespace(limit_range)].append(limits)
        return dict(found)


def _aggregate(messages: list[str]) -> str:
    """Several complaints as Kubernetes joins them: each once, in brackets."""
    texts = list(dict.fromkeys(messages))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def fill_in(pod: Object, limits: Sequence[Object]) -> None:
    """Gives the pod's containers the defaults of one LimitRange, and notes on the pod what they were given."""
    defaults = {side: _defaults(limits, field) for side, field, _ in _SIDES}
    if not any(defaults.values()):
        return
    notes: list[str] = []
    for field, called in _CONTAINERS:
        for container in pod["spec"].get(field) or ():
            notes += _fill_in_container(container, defaults, f"{called} {container.get('name', '')}")
    if notes:
        annotations = objects.metadata(pod).setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _defaults(limits: Sequence[Object], field: str) -> dict[str, str]:
    """Later limits of a range win."""
    merged: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            merged.update(limit.get(field) or {})
    return merged


def _fill_in_container(container: Object, defaults: Mapping[str, dict[str, str]], called: str) -> list[str]:
    notes: list[str] = []
    resources = container.setdefault("resources", {})
    for side, _, word in _SIDES:
        given = resources.get(side) or {}
        missing = {name: amount for name, amount in defaults[side].items() if name not in given}
        if missing:
            resources[side] = {**given, **missing}
            notes.append(f"{', '.join(sorted(missing))} {word} for {called}")
    return notes
