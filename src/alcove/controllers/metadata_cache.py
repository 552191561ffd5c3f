"""The metadata of all objects of all kinds of all tenants, for content deletion and garbage collection.

Of kinds whose whole objects a controller mirrors, that mirror is read. Of all others only the fields are cached that are
needed: uid, owners, finalizers, deletion timestamp. Built-in kinds come
from the home plane's discovery; a custom kind is mirrored on a plane as long as any tenant there has its
CRD. CRDs are cached without their schemas, because a thousand tenants may have the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client import discovery
from alcove.client.changes import ChangeType, ObjectChange, Subscriber
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import API_SERVICES, CUSTOM_RESOURCE_DEFINITIONS, Resource
from alcove.controllers.object_counts import ObjectCounts

_NEEDED = frozenset({"list", "watch", "delete"})
_FIELDS = ("tenant", "namespace", "name", "uid", "resourceVersion", "deletionTimestamp", "finalizers")
_OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")


class ObjectMetadata(Struct, frozen=True):
    resource: Resource
    key: ObjectKey
    metadata: Object

    @property
    def uid(self) -> str:
        return str(self.metadata["uid"])

    @property
    def is_terminating(self) -> bool:
        return "deletionTimestamp" in self.metadata

    @property
    def finalizers(self) -> list[str]:
        return self.metadata.get("finalizers") or []

    @property
    def owners(self) -> list[Object]:
        return self.metadata.get("ownerReferences") or []


def trim_metadata(obj: Object) -> Object:
    """The object reduced to the metadata fields that are cached."""
    metadata = obj["metadata"]
    fields = {field: metadata[field] for field in _FIELDS if metadata.get(field)}
    if owners := metadata.get("ownerReferences"):
        fields["ownerReferences"] = [
            {field: owner[field] for field in _OWNER_FIELDS if field in owner} for owner in owners
        ]
    return {"metadata": fields}


def without_schemas(crd: Object) -> Object:
    spec = crd["spec"]
    versions = [
        {field: version[field] for field in ("name", "served", "storage") if field in version}
        for version in spec.get("versions") or ()
    ]
    fields = {
        "group": spec["group"],
        "scope": spec.get("scope"),
        "names": spec["names"],
        "versions": versions,
    }
    metadata = {field: crd["metadata"][field] for field in _FIELDS if crd["metadata"].get(field)}
    return {"metadata": metadata, "spec": fields, "status": crd.get("status") or {}}


def resource_of(crd: Object) -> Resource | None:
    """The resource that an established CRD serves, preferring its storage version. None if it serves none."""
    names = objects.get(crd, "status", "acceptedNames", default={})
    conditions = objects.get(crd, "status", "conditions", default=())
    established = any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
    versions = [version for version in crd["spec"]["versions"] if version.get("served")]
    if not established or not versions or not names.get("plural"):
        return None
    versions.sort(key=lambda version: not version.get("storage"))
    return Resource(
        crd["spec"]["group"],
        versions[0]["name"],
        names["plural"],
        names["kind"],
        crd["spec"]["scope"] == "Namespaced",
    )


def _kind_name(group: str, kind: str) -> str:
    return f"{kind}.{group}"


def _kind_of(crd: Object) -> Iterable[str]:
    resource = resource_of(crd)
    return [_kind_name(resource.group, resource.kind)] if resource else []


Listener = Callable[[Resource, ObjectChange], None]


class Subscription(Struct, frozen=True):
    """Who is to be called with the objects of a mirror, and their changes."""

    mirror: Mirror
    subscriber: Subscriber


class MetadataCache:
    def __init__(self, planes: Planes) -> None:
        self._planes = planes
        self._stock: dict[Resource, Mirror] = {}
        self._stock_kinds: dict[tuple[str, str], Resource] = {}
        self._custom: dict[tuple[PlaneId, Resource], Mirror] = {}
        self._crd_keys: dict[tuple[PlaneId, Resource], set[ObjectKey]] = {}
        """The CRDs, of any tenant, that define the resource. Its mirror is dropped with the last one."""
        self._listeners: list[Listener] = []
        self._counts = ObjectCounts()
        self.crds = planes.mirror(
            ListSelection(CUSTOM_RESOURCE_DEFINITIONS), {"kind": _kind_of}, trim=without_schemas
        )

    async def start(self) -> None:
        """Discovers the kinds and starts mirroring them. The home plane must have joined, its CRDs be synced, and
        all controllers have asked for their mirrors."""
        client = self._planes.client(HOME)
        aggregated = {
            (each["spec"].get("group"), each["spec"]["version"])
            for each in await client.list(SYSTEM, API_SERVICES)
            if objects.get(each, "spec", "service") is not None
        }
        for each in await discovery.served(client, SYSTEM):
            # Ring0's aggregated APIs are ring0's only, and the tenants' own are not known here.
            if (each.resource.group, each.resource.version) in aggregated:
                continue
            if each.verbs >= _NEEDED and not self._is_custom(each.resource):
                self._stock[each.resource] = self._mirror(each.resource, None)
                self._stock_kinds[each.resource.group, each.resource.kind] = each.resource
        self.crds.subscribe(self._on_crd)

    def _is_custom(self, resource: Resource) -> bool:
        """Ring0's discovery includes its CRDs, whose kinds are mirrored only while the CRD exists."""
        return (resource.group, resource.kind) not in self._stock_kinds and bool(
            self.crds.get(ObjectKey(HOME, SYSTEM, "", f"{resource.resource}.{resource.group}"))
        )

    def _mirror(self, resource: Resource, only: PlaneId | None) -> Mirror:
        mirror = self._planes.whole_mirror(resource) if only is None else None
        if mirror is None:
            selection = ListSelection(resource, metadata_only=True)
            mirror = self._planes.mirror(selection, trim=trim_metadata, only=only)
        # Subscribed first: the counts are up to date when listeners are called.
        mirror.subscribe(partial(self._counts.note, resource))
        for listener in self._listeners:
            mirror.subscribe(partial(listener, resource))
        return mirror

    def _on_crd(self, change: ObjectChange) -> None:
        plane = change.key.plane
        for crd, exists in ((change.old, False), (change.obj, change.kind is not ChangeType.DELETED)):
            resource = resource_of(crd) if crd is not None else None
            if resource is None or (resource.group, resource.kind) in self._stock_kinds:
                continue
            crd_keys = self._crd_keys.setdefault((plane, resource), set())
            (crd_keys.add if exists else crd_keys.discard)(change.key)
            self._set_mirrored(plane, resource, bool(crd_keys))

    def _set_mirrored(self, plane: PlaneId, resource: Resource, desired: bool) -> None:
        entry = (plane, resource)
        if desired and entry not in self._custom:
            self._custom[entry] = self._mirror(resource, plane)
        elif not desired and entry in self._custom:
            del self._crd_keys[entry]
            self._planes.drop(self._custom.pop(entry))

    # Reading

    def listen(self, listener: Listener) -> list[Subscription]:
        """What has to be subscribed, so that `listener` is called with the resource and the change for every change of any object.
        Kinds that are mirrored from now on are subscribed here."""
        self._listeners.append(listener)
        return [Subscription(mirror, partial(listener, resource)) for resource, mirror in self._on(None)]

    def of(self, tenant_key: TenantKey, namespace: str | None = None) -> list[ObjectMetadata]:
        """All objects of a tenant, or of one of its namespaces."""
        result = []
        for resource in self._counts.resources(tenant_key, namespace):
            mirror = self._of(tenant_key.plane, resource)
            if mirror is not None:
                for key in mirror.keys(tenant_key.plane, tenant_key.tenant, namespace):
                    result.append(_metadata(resource, mirror, key))
        return [each for each in result if each is not None]

    def resources(self, tenant_key: TenantKey, namespace: str | None = None) -> Iterable[Resource]:
        """The resources of which the tenant, or one of its namespaces, has any object."""
        return self._counts.resources(tenant_key, namespace)

    def has(self, tenant_key: TenantKey, namespace: str | None, resource: Resource) -> bool:
        """Whether the namespace (None: the whole tenant) has any object of the resource."""
        return resource in self._counts.resources(tenant_key, namespace)

    def get(self, resource: Resource, key: ObjectKey) -> ObjectMetadata | None:
        mirror = self._of(key.plane, resource)
        return _metadata(resource, mirror, key) if mirror is not None else None

    def dependents(self, tenant_key: TenantKey, uid: str) -> list[ObjectMetadata]:
        """The tenant's objects that name this uid among their owners."""
        result = []
        for dependent in self._counts.dependents(tenant_key, uid):
            key = ObjectKey(tenant_key.plane, tenant_key.tenant, dependent.namespace, dependent.name)
            result.append(self.get(dependent.resource, key))
        return [each for each in result if each is not None]

    def kind(self, tenant_key: TenantKey, group: str, kind: str) -> Resource | None:
        """The resource that a kind names in a tenant. None if the kind is unknown."""
        stock = self._stock_kinds.get((group, kind))
        if stock is not None:
            return stock
        for tenant in (tenant_key.tenant, SYSTEM):
            for crd in self.crds.find("kind", tenant_key.plane, tenant, _kind_name(group, kind)):
                return resource_of(crd)
        return None

    async def caught_up(self, plane: PlaneId, tenant: TenantId) -> None:
        for _, mirror in self._on(plane):
            if mirror.owes(plane, tenant):
                await mirror.caught_up(plane, tenant)

    def is_synced(self, plane: PlaneId) -> bool:
        return all(mirror.is_synced(plane) for _, mirror in self._on(plane))

    def _of(self, plane: PlaneId, resource: Resource) -> Mirror | None:
        mirror = self._stock.get(resource)
        return mirror if mirror is not None else self._custom.get((plane, resource))

    def _on(self, plane: PlaneId | None) -> Iterator[tuple[Resource, Mirror]]:
        yield from self._stock.items()
        for (mirror_plane, resource), mirror in self._custom.items():
            if plane is None or mirror_plane == plane:
                yield resource, mirror


def _metadata(resource: Resource, mirror: Mirror, key: ObjectKey) -> ObjectMetadata | None:
    obj = mirror.get(key)
    return ObjectMetadata(resource, key, obj["metadata"]) if obj is not None else None
