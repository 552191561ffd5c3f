"""A kind: its names, scope, verbs, schema, columns and strategy.

The registry (`api/registry.py`) lists the stock kinds; CRDs add more at run time. The API server treats
both alike.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any

from msgspec import Struct

from alcove.api.fields import FieldError
from alcove.api.ids import GroupResource, GroupVersionKind
from alcove.api.objects import Object
from alcove.api.schema.node import SchemaNode


class Scope(Enum):
    RING0 = "ring0"
    """Exists only in the system tenant and is hidden from all other tenants."""
    TENANT = "tenant"
    """One set of names per tenant ("cluster-scoped" as the tenant sees it)."""
    NAMESPACE = "namespace"


CLIENT_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class PrinterColumn(Struct, frozen=True):
    """A column of the server-side table. `value` is called with the object and the time in epoch seconds."""

    name: str
    value: Callable[[Object, float], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """0: always shown, 1: shown with `-o wide`."""


class Subresource(Struct, frozen=True):
    name: str
    kind: GroupVersionKind
    verbs: tuple[str, ...]


class Completion(Struct, frozen=True):
    """How objects written before the kind's definition was changed are completed when they are read."""

    number: int
    """Number of this definition among all: an object found complete for it need not be checked again."""
    apply: Callable[[Object], None]


def _no_change(_obj: Object) -> None:
    pass


def _no_errors(_obj: Object) -> Sequence[FieldError]:
    return ()


def _no_update_errors(_new: Object, _old: Object) -> Sequence[FieldError]:
    return ()


class Strategy(Struct, frozen=True, kw_only=True):
    """The kind-specific steps between decoding and storing. All functions are pure.

    Order on create: default → (admission) → validate, validate_create. On update: default →
    (admission) → validate, then validate_update with the stored object.
    """

    default: Callable[[Object], None] = _no_change
    """Fills in defaults in place."""
    validate: Callable[[Object], Sequence[FieldError]] = _no_errors
    validate_create: Callable[[Object], Sequence[FieldError]] = _no_errors
    """Rules for new objects only; called after `validate`."""
    validate_update: Callable[[Object, Object], Sequence[FieldError]] = _no_update_errors
    """Immutable fields and allowed transitions; called with (new, old)."""
    validate_status: Callable[[Object, Object], Sequence[FieldError]] = _no_update_errors
    """Rules for a write to the status subresource; called with (new, old)."""
    validate_subresource: Mapping[str, Callable[[Object, Object], Sequence[FieldError]]] = {}
    """Rules for other subresources (a CSR's approval) by subresource name; called with (new, old)."""
    prepare_create: Callable[[Object], None] = _no_change
    """Sets fields that the server owns (a pod's phase and QoS class, …); the status was dropped before."""
    prepare_update: Callable[[Object, Object], None] = lambda _new, _old: None
    """Carries over fields that clients may omit (a service's cluster IP, …); called with (new, old)."""
    prepare_status: Callable[[Object, Object], None] = lambda _new, _old: None
    """Like `prepare_update`, for a write to the status subresource, before `validate_status`."""
    fields: Mapping[str, Callable[[Object], str]] = {}
    """Field selectors beyond metadata.name and metadata.namespace."""
    status_leaves: tuple[str, ...] = ()
    """Metadata fields that a write to the status subresource cannot change. As in Kubernetes, it can change
    the other fields that clients write (`CLIENT_METADATA`)."""
    has_status: bool = False
    """Status is a subresource: other writes do not change it, and status writes change only it."""
    keeps_new_status: bool = False
    """The status sent with a new object is kept instead of dropped (nodes)."""
    counts_generation: bool = False
    """`metadata.generation` is increased by changes outside metadata and status."""
    validate_name: Callable[[str, bool], Sequence[str]] | None = None
    """(name, is_prefix) → error messages; None: the name must be a DNS subdomain."""
    grace_seconds: Callable[[Object, int | None], int] | None = None
    """For kinds deleted gracefully (pods): (object, requested seconds) → grace period; 0: immediately."""
    create_on_update: bool = False
    """PUT of a missing object creates it."""
    unconditional_update: bool = True
    """PUT without resourceVersion overwrites."""


class Compilation:
    """Compiles a kind's large schema. `run` may be called in another thread, and more than once."""

    __slots__ = ("_run", "is_done")

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self.is_done = False

    def run(self) -> None:
        self._run()
        self.is_done = True


class Kind(Struct, frozen=True, kw_only=True, dict=True):
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
    """The version that objects are stored in; empty: this one."""
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    """Conversions for versions that are not the storage version; None: only apiVersion differs."""
    stored_resource: GroupResource | None = None
    """The store's resource, if objects are also served under another name (events, networks)."""
    definition: str = ""
    """Name of the OpenAPI definition: `io.k8s.api.core.v1.Pod`."""
    list_kind: str = ""
    """Empty: kind + "List"."""
    convert: Callable[[Sequence[Object], str], Awaitable[Sequence[Object]]] | None = None
    """Asynchronous conversion (a CRD's webhook): (objects, desired apiVersion) → the same objects, in order.
    If set, it replaces `to_storage` and `from_storage`."""
    completion: Completion | None = None
    """None: objects of the kind never need completion."""
    compilation: Compilation | None = None
    """What must be compiled before the kind is used; None if there is nothing that takes long."""
    warning: str = ""
    """Sent with every response at this version: a deprecation notice."""
    scale_paths: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None = None
    """Paths of desired replicas, actual replicas and selector; None: those of the stock kinds."""

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)

    @cached_property
    def storage_resource(self) -> GroupResource:
        return self.stored_resource or self.group_resource

    @cached_property
    def is_stored_version(self) -> bool:
        """Whether stored objects are objects of this kind and version, but for defaults that it has learned since."""
        return (
            self.from_storage is None
            and self.storage_version in ("", self.version)
            and self.stored_resource is None
        )

    @cached_property
    def is_served_as_stored(self) -> bool:
        """Whether stored objects are served as they are."""
        return self.is_stored_version and self.completion is None and self.convert is None

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)
