"""Controller references: adopts objects that the owner's selector matches, releases those it no longer
matches.

Owner and dependents are always in the same plane, tenant and namespace; references are compared by uid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from alcove.api.errors import Conflict, NotFound
from alcove.api.objects import Object, labels
from alcove.api.selectors import LabelSelector
from alcove.client.changes import controller_uid
from alcove.client.client import Client, Patch
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import Resource
from alcove.controllers.concurrency import gather_all


def orphans(obj: Object) -> Iterable[str]:
    """An index: objects without a controller, by namespace."""
    return () if controller_uid(obj) else (obj["metadata"].get("namespace") or "",)


OWNING = {"controller": controller_uid, "orphans": orphans}
"""The indexes that a mirror of owned objects needs."""


class OwnershipChanges(Struct, frozen=True):
    owned: list[Object]
    adopt: list[Object]
    release: list[Object]


def plan_ownership(
    owner: Object, selector: LabelSelector, controlled: Sequence[Object], loose: Sequence[Object]
) -> OwnershipChanges:
    """`controlled` are objects with a reference to the owner's uid, `loose` those without a controller."""
    namespace = owner["metadata"].get("namespace")
    is_terminating = "deletionTimestamp" in owner["metadata"]
    dependents = [each for each in controlled if each["metadata"].get("namespace") == namespace]
    matching = [each for each in dependents if selector.matches(labels(each))]
    if is_terminating:
        return OwnershipChanges(matching, [], [])
    adopt = [
        each
        for each in loose
        if each["metadata"].get("namespace") == namespace
        and "deletionTimestamp" not in each["metadata"]
        and selector.matches(labels(each))
    ]
    return OwnershipChanges(
        matching, adopt, [each for each in dependents if not selector.matches(labels(each))]
    )


def reference(resource: Resource, owner: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class ControllerRefManager(Struct, frozen=True):
    """Adopts and releases objects on behalf of one owner."""

    client: Client
    key: ObjectKey
    resource: Resource
    obj: Object
    selector: LabelSelector

    @property
    def uid(self) -> str:
        return self.obj["metadata"]["uid"]  # type: ignore[no-any-return]

    async def claim(
        self, mirror: Mirror, counts: Callable[[Object], bool] = lambda _obj: True
    ) -> list[Object]:
        """Adopts and releases, then returns the objects that the owner controls. Only objects for which
        `counts` is true are considered."""
        key = self.key
        controlled = mirror.find("controller", key.plane, key.tenant, self.uid)
        loose = mirror.find("orphans", key.plane, key.tenant, key.namespace)
        claims = plan_ownership(
            self.obj,
            self.selector,
            [each for each in controlled if counts(each)],
            [each for each in loose if counts(each)],
        )
        resource = mirror.selection.resource
        await gather_all(self._release(resource, each) for each in claims.release)
        if not claims.adopt or not await self._owner_exists():
            return claims.owned
        adopted = await gather_all(self._adopt(resource, each) for each in claims.adopt)
        return claims.owned + [each for each in adopted if each is not None]

    async def _owner_exists(self) -> bool:
        """Read from the server: a deleted owner must not adopt objects, as they would never be cleaned up."""
        metadata = self.obj["metadata"]
        try:
            owner = await self.client.get(
                self.key.tenant, self.resource, self.key.name, namespace=self.key.namespace
            )
        except NotFound:
            return False
        current = owner["metadata"]
        return bool(current["uid"] == metadata["uid"]) and "deletionTimestamp" not in current

    async def _adopt(self, resource: Resource, obj: Object) -> Object | None:
        owners = obj["metadata"].get("ownerReferences") or []
        return await self._patch_owners(resource, obj, [*owners, reference(self.resource, self.obj)])

    async def _release(self, resource: Resource, obj: Object) -> Object | None:
        owners = obj["metadata"].get("ownerReferences") or []
        return await self._patch_owners(
            resource, obj, [each for each in owners if each.get("uid") != self.uid]
        )

    async def _patch_owners(self, resource: Resource, obj: Object, owners: list[Object]) -> Object | None:
        metadata = obj["metadata"]
        patch = {
            "metadata": {"ownerReferences": owners or None, "resourceVersion": metadata["resourceVersion"]}
        }
        try:
            return await self.client.patch(
                self.key.tenant,
                resource,
                metadata["name"],
                patch,
                namespace=self.key.namespace,
                kind=Patch.MERGE,
            )
        except NotFound:
            return None
        except Conflict:
            # Another writer changed it; the watch event enqueues the owner again.
            return None
