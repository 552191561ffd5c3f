"""Sets a pod's priority from its PriorityClass; a pod cannot set it itself."""

from msgspec import Struct

from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import PODS, PRIORITY_CLASSES
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.reader import CacheReader

SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Built in, for ring0 only: a tenant's pods never have a higher priority than those of the cluster."""

_LOWER = "PreemptLowerPriority"


class PriorityValues(Struct, frozen=True):
    """The values that a class sets on its pods."""

    value: int
    policy: str
    name: str


class Priority(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._default = DerivedCache(reader, PRIORITY_CLASSES, lambda tenant: default_class(reader, tenant))

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and not subresource and resource in (PODS, PRIORITY_CLASSES)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource != PODS:
            return
        assert attributes.obj is not None
        spec = attributes.obj["spec"]
        if attributes.operation is Operation.CREATE:
            self._set_priority(attributes, spec)
        elif attributes.old is not None:
            # Keep these fields if a client that does not know them updates the pod.
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and field in attributes.old["spec"]:
                    spec[field] = attributes.old["spec"][field]

    def _set_priority(self, attributes: Attributes, spec: Object) -> None:
        values = self._resolve(attributes, spec.get("priorityClassName") or "")
        _check(attributes, spec, values)
        spec["priority"], spec["preemptionPolicy"] = values.value, values.policy
        if values.name:
            spec["priorityClassName"] = values.name

    def _resolve(self, attributes: Attributes, name: str) -> PriorityValues:
        if name in SYSTEM_CLASSES and attributes.tenant == SYSTEM:
            return PriorityValues(SYSTEM_CLASSES[name], _LOWER, name)
        if name:
            chosen = self._reader.get(attributes.tenant, PRIORITY_CLASSES, "", name)
            if chosen is None:
                raise Forbidden.of(PODS, attributes.name, f"no PriorityClass with name {name} was found")
        else:
            chosen = self._default.of(attributes.tenant)
            if chosen is None:
                return PriorityValues(0, _LOWER, "")
        return PriorityValues(
            chosen["value"], chosen.get("preemptionPolicy") or _LOWER, chosen["metadata"]["name"]
        )

    async def validate(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        if attributes.resource == PRIORITY_CLASSES:
            self._check_class(attributes, attributes.obj)
        elif attributes.operation is Operation.CREATE:
            # A webhook may have changed the fields.
            spec = attributes.obj["spec"]
            _check(attributes, spec, self._resolve(attributes, spec.get("priorityClassName") or ""))

    def _check_class(self, attributes: Attributes, obj: Object) -> None:
        """A tenant may not have a system class, and at most one class may be the global default."""
        name = obj["metadata"]["name"]
        if attributes.tenant != SYSTEM and name.startswith(SYSTEM_PREFIX):
            message = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only"
            raise Forbidden.of(PRIORITY_CLASSES, name, message)
        if not obj.get("globalDefault"):
            return
        other = default_class(self._reader, attributes.tenant)
        if other is not None and other["metadata"]["name"] != name:
            message = (
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist"
            )
            raise Forbidden.of(PRIORITY_CLASSES, name, message)


def _check(attributes: Attributes, spec: Object, values: PriorityValues) -> None:
    """Raise Forbidden if the pod has other values than its class."""
    for description, field, computed in (
        ("the integer value of priority", "priority", values.value),
        ("the string value of PreemptionPolicy", "preemptionPolicy", values.policy),
    ):
        if spec.get(field) is not None and spec[field] != computed:
            message = (
                f"{description} ({spec[field]}) must not be provided in pod spec; "
                f"priority admission controller computed {computed} from the given PriorityClass name"
            )
            raise Forbidden.of(PODS, attributes.name, message)


def default_class(reader: CacheReader, tenant: TenantId) -> Object | None:
    """The class of pods without one; of several, the one with the lowest value, as in Kubernetes."""
    marked = [each for each in reader.list(tenant, PRIORITY_CLASSES) if each.get("globalDefault")]
    return min(marked, key=lambda each: int(each["value"]), default=None)
