"""What a controller is. Adding one is one file with a class like this, and one line in `all.py`.

    class Widgets(Controller):
        name = "widget"
        resource = WIDGETS                      # what its keys name

        def __init__(self, setup: Setup) -> None:
            super().__init__(setup)
            self._widgets = self.mirror(WIDGETS)
            self._pods = self.mirror(PODS, {"controller": controller_uid})
            self.on(self._widgets)              # a widget changed: reconcile it
            self.on(self._pods, owner_of(WIDGETS))   # a pod changed: reconcile its widget

        async def reconcile(self, key: ObjectKey) -> Result:
            widget = self._widgets.get(key)     # a copy of its own
            if widget is None:
                return DONE
            pods = self._pods.find("controller", key.plane, key.tenant, widget["metadata"]["uid"])
            await self.client(key).create(key.tenant, PODS, …, namespace=key.namespace)
            return DONE                         # or Result(after_seconds=30.0): look again then

`reconcile` brings the world to what the object says, whatever happened before; it is safe to repeat and
to interrupt anywhere. It never catches an error in order to try again: it raises, and the loop tries the
key again, later each time. Before each call the loop has made sure that all mirrors this controller
reads have seen this process' own earlier writes in the tenant: what was created is there, no
bookkeeping of expectations is needed. Two calls for one key never overlap.

A mirror knows only what its watch told. Before deleting or taking over something for good, name the uid
(`delete(…, uid=…)`) or the resourceVersion (`update`), so that the server refuses what was outdated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.changes import Index, ObjectChange, Subscriber, Trim, without_managed_fields
from alcove.client.client import Client, ListSelection
from alcove.client.events import ControllerEvents, EventRecorder
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import NODES, Resource
from alcove.controllers.metadata_cache import MetadataCache
from alcove.network.providers.all import PROVIDERS
from alcove.network.providers.base import Providers

Clock = Callable[[], float]
"""Epoch seconds."""
Keys = Callable[[ObjectChange], Iterable[ObjectKey]]
"""Whom a change concerns."""
KeysOfAny = Callable[[Resource, ObjectChange], Iterable[ObjectKey]]
"""The same, told what changed."""


class Result(Struct, frozen=True):
    after_seconds: float | None = None
    """When to look again, if nothing happens before. None: when something happens."""


DONE = Result()


class ServerRefusal(Exception):
    """The server refused something, and the controller told the tenant in an event of its own: the loop
    tries again, later each time, and says nothing more."""


class ControllerOptions(Struct, frozen=True, kw_only=True):
    """What the command line says to controllers, and which types of networks there are."""

    default_network_template: Path | None = None
    providers: Providers = PROVIDERS


class ControllerContext(Struct, frozen=True, kw_only=True):
    """What all controllers are made with."""

    planes: Planes
    metadata_cache: MetadataCache
    recorder: EventRecorder
    clock: Clock
    authorities: Mapping[PlaneId, str]
    """Each plane's certificate authority, in PEM: what its clients trust it by."""
    options: ControllerOptions = ControllerOptions()


class WatchSource(Struct, frozen=True):
    """Something that tells of changes, and whom they concern."""

    subscribe: Callable[[Subscriber], None]
    keys: Keys
    mirror: Mirror | None = None


def itself(change: ObjectChange) -> Iterable[ObjectKey]:
    return (change.key,)


class Controller:
    name: ClassVar[str]
    resource: ClassVar[Resource]
    """What its keys name."""
    workers: ClassVar[int] = 8

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.events = ControllerEvents(context.recorder, f"{self.name}-controller")
        self.clock = context.clock
        self.metadata_cache = context.metadata_cache
        self.reads: list[Mirror] = []
        self.sources: list[WatchSource] = []

    async def reconcile(self, key: ObjectKey) -> Result:
        raise NotImplementedError

    async def background(self) -> None:
        """Runs beside the reconciler, for what no key stands for; over when it returns."""

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
        """The shared mirror of such objects; indexes of the same name are taken for the same."""
        selection = ListSelection(resource, "", labels, fields, metadata_only)
        mirror = self.context.planes.mirror(selection, indexes, tenant=tenant, trim=trim, only=only)
        if mirror not in self.reads:
            self.reads.append(mirror)
        return mirror

    def nodes(self) -> Mirror:
        """Ring0's, on the home plane. What any other tenant or plane calls a node is none."""
        return self.mirror(NODES, tenant=SYSTEM, only=HOME)

    def on(self, mirror: Mirror, keys: Keys = itself) -> None:
        """Reconcile these keys whenever an object of the mirror changes."""
        self.sources.append(WatchSource(mirror.subscribe, keys, mirror))

    def on_any_object(self, keys: KeysOfAny) -> None:
        """The same for every object of every kind, by its metadata."""

        def subscribe(subscriber: Subscriber) -> None:
            def hear(resource: Resource, change: ObjectChange) -> None:
                for key in keys(resource, change):
                    subscriber(ObjectChange(change.kind, key, change.obj))

            self.metadata_cache.listen(hear)

        self.sources.append(WatchSource(subscribe, itself))

    async def fresh(self, key: ObjectKey) -> None:
        """Waits, before each `reconcile`, until what it reads has this process' own writes."""
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
    """For `on`: the object of this resource that controls the changed one, now or before the change.

    Owners are in the same tenant and namespace; a reference that says otherwise does not count.
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
