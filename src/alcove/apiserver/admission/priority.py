"""A pod's priority comes from its PriorityClass, never from the pod."""

from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import Reader

PODS = GroupResource("", "pods")
CLASSES = GroupResource("scheduling.k8s.io", "priorityclasses")

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Built in, for ring0 alone: a tenant's pods are never more important than the cluster's own."""


class Priority(Plugin):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return not subresource and (
            (operation is Operation.CREATE and resource == PODS) or (writes and resource == CLASSES)
        )

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource != PODS:
            return
        pod = attributes.obj
        assert pod is not None
        spec = pod["spec"]
        value, policy, name = self._resolve(attributes, spec.get("priorityClassName") or "")
        given = spec.get("priority")
        if given is not None and given != value:
            told = (
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise Forbidden.of(PODS, attributes.name, told)
        spec["priority"] = value
        if name:
            spec["priorityClassName"] = name
        spec.setdefault("preemptionPolicy", policy)

    def _resolve(self, attributes: Attributes, name: str) -> tuple[int, str, str]:
        """(value, preemption policy, class name)."""
        if name in SYSTEM_CLASSES and attributes.tenant == SYSTEM:
            return SYSTEM_CLASSES[name], "PreemptLowerPriority", name
        if not name:
            chosen = default_class(self._reader, attributes.tenant)
            if chosen is None:
                return 0, "PreemptLowerPriority", ""
            name = chosen["metadata"]["name"]
        else:
            chosen = self._reader.get(attributes.tenant, CLASSES, "", name)
        if chosen is None:
            raise Forbidden.of(PODS, attributes.name, f"no PriorityClass with name {name} was found")
        return chosen["value"], chosen.get("preemptionPolicy") or "PreemptLowerPriority", name

    async def validate(self, attributes: Attributes) -> None:
        """At most one class is everybody's default."""
        obj = attributes.obj
        if attributes.resource != CLASSES or obj is None or not obj.get("globalDefault"):
            return
        other = default_class(self._reader, attributes.tenant)
        if other is not None and other["metadata"]["name"] != obj["metadata"]["name"]:
            told = (
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist"
            )
            raise Forbidden.of(CLASSES, attributes.name, told)


def default_class(reader: Reader, tenant: TenantId) -> Object | None:
    """The class of pods that name none; of several the least important, as Kubernetes takes it."""
    marked = [each for each in reader.list(tenant, CLASSES) if each.get("globalDefault")]
    return min(marked, key=lambda each: int(each["value"]), default=None)
