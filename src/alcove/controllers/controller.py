"""The base class of all controllers. A new one is a file with a class like this and a line in `all.py`.

    class Widgets(Controller):
        name = "widget"
        resource = WIDGETS                      # what its keys name

        def __init__(self, context: ControllerContext) -> None:
            super().__init__(context)
            self._widgets = self.mirror(WIDGETS)
            self._pods = self.mirror(PODS, {"controller": controller_uid})
            self.on(self._widgets)              # a widget changed: reconcile it
            self.on(self._pods, owner_of(WIDGETS))   # a pod changed: reconcile its widget

        async def reconcile(self, key: ObjectKey) -> Result:
            widget = self._widgets.get(key)     # a copy that may be changed
            if widget is None:
                return DONE
            pods = self._pods.find("controller", key.plane, key.tenant, widget["metadata"]["uid"])
            await self.client(key).create(key.tenant, PODS, …, namespace=key.namespace)
            return DONE                         # or Result(after_seconds=30.0) to reconcile again then

`reconcile` brings the current state to the desired state whatever happened before; it is safe to repeat and
to interrupt anywhere. It never catches an error in order to retry: it raises, and the loop retries the key
with exponential backoff. Before each call the loop waits until all mirrors that this controller reads have
received this process's earlier writes in the tenant, so that created objects are visible and no
expectations need to be tracked. Two calls for one key never overlap.

A mirror may lag behind the server. Before deleting or adopting an object, pass its uid (`delete(…, uid=…)`)
or resourceVersion (`update`), so that the server rejects a write that is based on outdated state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, field

from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.changes import Index, ObjectChange, Subscriber, Trim, without_managed_fields
from alcove.client.client import Client, ListSelection
from alcove.client.events import ControllerEvents, EventRecorder
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import NODES, TENANTS, Resource
from alcove.controllers.backup_requests import RunBackup
from alcove.controllers.metadata_cache import MetadataCache, Subscription
from alcove.controllers.metrics import ControllerMetrics
from alcove.controllers.plane_certificates import PlaneCertificates
from alcove.network.providers.all import PROVIDERS
from alcove.network.providers.base import Providers

RECONCILE_SECONDS_MAX = 120.0

Clock = Callable[[], float]
"""Epoch seconds."""
Keys = Callable[[ObjectChange], Iterable[ObjectKey]]
"""The keys to enqueue for a change."""
KeysOfAny = Callable[[Resource, ObjectChange], Iterable[ObjectKey]]
"""The keys to enqueue for a change of an object of the given resource."""


class Result(Struct, frozen=True):
    after_seconds: float | None = None
    """When to reconcile again if no change enqueues the key before. None: only on a change."""


DONE = Result()


class ServerRefusal(Exception):
    """The server rejected a request and the controller has already recorded an event for the tenant: the
    loop retries with backoff and reports nothing more."""


ConnectPlane = Callable[[str, str], AbstractAsyncContextManager[Client]]
"""By its URL and its certificate authority, in PEM. The client writes under this process' fence. Raises ApiError and ClientError."""


class ControllerOptions(Struct, frozen=True, kw_only=True):
    """Command line options of the controllers, and the available network types."""

    default_network_template: Path | None = None
    providers: Providers = PROVIDERS
    plane_certificates: PlaneCertificates | None = None
    """What dedicated planes are made with; None to run none."""
    connect_plane: ConnectPlane | None = None
    """Connects to a dedicated API server that has not joined, to move its tenant; None to move none."""
    usage_retention_days: int = 32
    """How long records of what tenants have used are kept."""
    usage_interval_seconds: float = 300.0
    """How often they are written, at most."""
    run_backup: RunBackup | None = None
    """Saves a tenant, and returns why that failed; empty if it did not."""


class ControllerContext(Struct, frozen=True, kw_only=True):
    """What all controllers share."""

    planes: Planes
    metadata_cache: MetadataCache
    recorder: EventRecorder
    clock: Clock
    authorities: Mapping[PlaneId, str]
    """Each plane's certificate authority, in PEM."""
    options: ControllerOptions = ControllerOptions()
    metrics: ControllerMetrics = field(default_factory=ControllerMetrics)


class WatchSource(Struct, frozen=True):
    """A source of changes, and the function that maps a change to the keys to enqueue."""

    subscriptions: Callable[[Subscriber], Iterable[Subscription]]
    """What has to be subscribed, so that the given subscriber gets the changes."""
    keys: Keys
    mirror: Mirror | None = None


def itself(change: ObjectChange) -> Iterable[ObjectKey]:
    return (change.key,)


class Controller:
    name: ClassVar[str]
    resource: ClassVar[Resource]
    """The resource that the controller's keys name."""
    workers: ClassVar[int] = 8
    reconcile_seconds_max: ClassVar[float] = RECONCILE_SECONDS_MAX
    """One call of `reconcile` that takes longer is cancelled, and has failed."""
    is_ring0: ClassVar[bool] = False
    """Whether it works for ring0 or for all tenants together: of several shards only that of ring0 runs it."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.events = ControllerEvents(context.recorder, f"{self.name}-controller")
        self.clock = context.clock
        self.metadata_cache = context.metadata_cache
        self.reads: list[Mirror] = []
        self.sources: list[WatchSource] = []

    async def reconcile(self, key: ObjectKey) -> Result:
        raise NotImplementedError

    def tenant_of(self, key: ObjectKey) -> TenantId:
        """The tenant that the key is reconciled for: its shard reconciles the key, and no other."""
        if key.plane != HOME:
            return TenantId(key.plane)
        return TenantId(key.name) if self.resource == TENANTS else key.tenant

    async def background(self) -> None:
        """Runs concurrently with the reconciler, for work that has no key. The default returns
        immediately. A controller that has such work `is_ring0`."""

    def mirror(
        self,
        resource: Resource,
        indexes: Mapping[str, Index] | None = None,
        *,
        tenant: TenantId = ALL,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        trim: Trim = without_managed_fields,
        only: PlaneId | None = None,
    ) -> Mirror:
        """The shared mirror of the selected objects. Indexes with the same name must be the same function."""
        selection = ListSelection(resource, "", labels, fields, metadata_only)
        mirror = self.context.planes.mirror(selection, indexes, tenant=tenant, trim=trim, only=only)
        if mirror not in self.reads:
            self.reads.append(mirror)
        return mirror

    def nodes(self) -> Mirror:
        """Ring0's nodes on the home plane. Node objects of other tenants or planes are ignored."""
        return self.mirror(NODES, tenant=SYSTEM, only=HOME)

    def on(self, mirror: Mirror, keys: Keys = itself) -> None:
        """Enqueue `keys(change)` whenever an object of the mirror changes."""
        self.sources.append(WatchSource(lambda subscriber: (Subscription(mirror, subscriber),), keys, mirror))

    def on_any_object(self, keys: KeysOfAny) -> None:
        """Enqueue `keys(resource, change)` for every object of every kind; changes carry metadata only."""

        def subscriptions(subscriber: Subscriber) -> Iterable[Subscription]:
            def on_change(resource: Resource, change: ObjectChange) -> None:
                for key in keys(resource, change):
                    subscriber(ObjectChange(change.kind, key, change.obj))

            return self.metadata_cache.listen(on_change)

        self.sources.append(WatchSource(subscriptions, itself))

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        """Waits, before each `reconcile`, until the mirrors have received this process's writes."""
        for mirror in self.reads:
            if mirror.owes(key.plane, key.tenant):
                await mirror.caught_up(key.plane, key.tenant)

    def client(self, key: ObjectKey) -> Client:
        return self.context.planes.client(key.plane)


def controller_of(obj: Object) -> Object | None:
    """The reference to the owner that controls the object."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def owner_of(resource: Resource) -> Keys:
    """For `on`: the key of the object of this resource that controls the changed one, now or before.

    Owners are looked up in the dependent's tenant and namespace only.
    """

    def keys(change: ObjectChange) -> Iterable[ObjectKey]:
        for obj in (change.obj, change.old):
            owner = controller_of(obj) if obj is not None else None
            if owner and owner.get("kind") == resource.kind and _group(owner) == resource.group:
                yield change.key.of(owner["name"], change.key.namespace if resource.namespaced else "")

    return keys


def _group(owner: Object) -> str:
    group, slash, _ = str(owner.get("apiVersion", "")).partition("/")
    return group if slash else ""
