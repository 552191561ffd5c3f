"""What a kind is: its names, scope, verbs, schema, columns and strategy.

The registry (`api/registry.py`) lists stock kinds; a CRD makes more of them at run time. The API
server treats both alike.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct

from alcove.api.fields import FieldError
from alcove.api.ids import GroupResource, GroupVersionKind
from alcove.api.objects import Object
from alcove.api.schema.node import SchemaNode


class Scope(Enum):
    RING0 = "ring0"
    """Only in the system tenant; hidden from the others."""
    TENANT = "tenant"
    """One space of names per tenant ("cluster-scoped" as the tenant sees it)."""
    NAMESPACE = "namespace"


CLIENT_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class PrinterColumn(Struct, frozen=True):
    """A column of the server-side table. `value` gets the object and the time now (epoch seconds)."""

    name: str
    value: Callable[[Object, float], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """0 is shown always, 1 with `-o wide`."""


class Subresource(Struct, frozen=True):
    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]


class Completion(Struct, frozen=True):
    """How objects that were written before the kind's definition was changed are completed when they are read."""

    number: int
    """Of this definition among all: an object once found complete need not be looked at again for it."""
    apply: Callable[[Object], None]


def _no_change(_obj: Object) -> None:
    pass


def _no_faults(_obj: Object) -> Sequence[FieldError]:
    return ()


def _no_update_faults(_new: Object, _old: Object) -> Sequence[FieldError]:
    return ()


class Strategy(Struct, frozen=True, kw_only=True):
    """What is particular to a kind between decoding and storing. All functions are pure.

    Order on create: default → (admission) → validate, validate_create. On update: default →
    (admission) → validate, then validate_update with the stored object.
    """

    default: Callable[[Object], None] = _no_change
    """Fills in defaults, in place."""
    validate: Callable[[Object], Sequence[FieldError]] = _no_faults
    validate_create: Callable[[Object], Sequence[FieldError]] = _no_faults
    """What holds only for new objects, asked after `validate`."""
    validate_update: Callable[[Object, Object], Sequence[FieldError]] = _no_update_faults
    """Immutable fields and allowed transitions: (new, old)."""
    validate_status: Callable[[Object, Object], Sequence[FieldError]] = _no_update_faults
    """A write to the status subresource: (new, old)."""
    validate_subresource: Mapping[str, Callable[[Object, Object], Sequence[FieldError]]] = {}
    """A write to a subresource with rules of its own (a request's approval), by its name: (new, old)."""
    prepare_create: Callable[[Object], None] = _no_change
    """Sets what the server owns (a pod's phase and QoS class, …); status was dropped before."""
    prepare_update: Callable[[Object, Object], None] = lambda _new, _old: None
    """Carries over what clients may leave out (a service's cluster IP, …): (new, old)."""
    prepare_status: Callable[[Object, Object], None] = lambda _new, _old: None
    """The same for a write to the status subresource, before `validate_status`: (new, old)."""
    fields: Mapping[str, Callable[[Object], str]] = {}
    """Field selectors beyond metadata.name and metadata.namespace."""
    status_leaves: tuple[str, ...] = ()
    """Fields of the metadata that a write to the status subresource cannot change; of the others it can, as in
    Kubernetes, those that clients write (`CLIENT_METADATA`)."""
    has_status: bool = False
    """Status is a subresource: a write of the object leaves it alone, and the other way round."""
    keeps_new_status: bool = False
    """The status given with a new object is kept, not dropped (nodes)."""
    counts_generation: bool = False
    """`metadata.generation` counts changes of everything but metadata and status."""
    validate_name: Callable[[str, bool], Sequence[str]] | None = None
    """(name, is_prefix) → what is wrong; None: a DNS subdomain."""
    grace_seconds: Callable[[Object, int | None], int] | None = None
    """For kinds deleted gracefully (pods): (object, asked) → seconds to give; 0 deletes at once."""
    create_on_update: bool = False
    """PUT of a missing object creates it."""
    unconditional_update: bool = True
    """PUT without resourceVersion overwrites."""


class Kind(Struct, frozen=True, kw_only=True):
    """One kind at one version. Versions of one resource share a store key and a storage version."""

    group: str
    version: str
    kind: str
    resource: str
    singular: str
    scope: Scope
    schema: SchemaNode
    strategy: Strategy = Strategy()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[Subresource, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    storage_version: str = ""
    """The version objects are stored in; empty: this one."""
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    """Conversions, for versions that are not stored; None: only apiVersion differs."""
    stored_resource: GroupResource | None = None
    """Where another resource's objects are served under this name too (events, networks): its key."""
    definition: str = ""
    """The OpenAPI definition's name: `io.k8s.api.core.v1.Pod`."""
    list_kind: str = ""
    """Empty: kind + "List"."""
    convert: Callable[[Sequence[Object], str], Awaitable[Sequence[Object]]] | None = None
    """Conversion that has to be waited for (a CRD's webhook): (objects, wanted apiVersion) → the same
    objects, in order. Where it is set, it stands for `to_storage` and `from_storage`."""
    completion: Completion | None = None
    """None: no object of the kind lacks anything."""
    warning: str = ""
    """Told with every answer at this version: that it is deprecated."""
    scale_paths: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None = None
    """Where wanted replicas, actual replicas and the selector are kept; None: where stock kinds keep them."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)

    @property
    def storage_resource(self) -> GroupResource:
        return self.stored_resource or self.group_resource

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)
