"""Which objects an owner controls: adopting those its selector matches, releasing those it no longer does.

Owner and owned are of one plane, tenant and namespace, always; a reference counts by its uid.
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
from alcove.controllers.concurrency import together


def orphans(obj: Object) -> Iterable[str]:
    """An index: the namespace of an object that nobody controls."""
    return () if controller_uid(obj) else (obj["metadata"].get("namespace") or "",)


OWNING = {"controller": controller_uid, "orphans": orphans}
"""The indexes that a mirror of owned objects needs."""


class OwnershipChanges(Struct, frozen=True):
    owned: list[Object]
    adopt: list[Object]
    release: list[Object]


def sort_out(
    owner: Object, selector: LabelSelector, controlled: Sequence[Object], loose: Sequence[Object]
) -> OwnershipChanges:
    """`controlled` refer to the owner's uid, `loose` to nobody."""
    namespace = owner["metadata"].get("namespace")
    ending = "deletionTimestamp" in owner["metadata"]
    mine = [each for each in controlled if each["metadata"].get("namespace") == namespace]
    matching = [each for each in mine if selector.matches(labels(each))]
    if ending:
        return OwnershipChanges(matching, [], [])
    adopt = [
        each
        for each in loose
        if each["metadata"].get("namespace") == namespace
        and "deletionTimestamp" not in each["metadata"]
        and selector.matches(labels(each))
    ]
    return OwnershipChanges(matching, adopt, [each for each in mine if not selector.matches(labels(each))])


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
    """Somebody who claims objects."""

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
        """What the owner controls after adopting and releasing, of the objects that `counts` approves."""
        key = self.key
        controlled = mirror.find("controller", key.plane, key.tenant, self.uid)
        loose = mirror.find("orphans", key.plane, key.tenant, key.namespace)
        claims = sort_out(
            self.obj,
            self.selector,
            [each for each in controlled if counts(each)],
            [each for each in loose if counts(each)],
        )
        what = mirror.selection.resource
        await together(self._release(what, each) for each in claims.release)
        if not claims.adopt or not await self._is_there():
            return claims.owned
        adopted = await together(self._adopt(what, each) for each in claims.adopt)
        return claims.owned + [each for each in adopted if each is not None]

    async def _is_there(self) -> bool:
        """Asked of the server itself: an owner that is gone must not adopt, for nobody would clean up."""
        metadata = self.obj["metadata"]
        try:
            found = await self.client.get(
                self.key.tenant, self.resource, self.key.name, namespace=self.key.namespace
            )
        except NotFound:
            return False
        there = found["metadata"]
        return bool(there["uid"] == metadata["uid"]) and "deletionTimestamp" not in there

    async def _adopt(self, what: Resource, obj: Object) -> Object | None:
        owners = obj["metadata"].get("ownerReferences") or []
        return await self._refer(what, obj, [*owners, reference(self.resource, self.obj)])

    async def _release(self, what: Resource, obj: Object) -> Object | None:
        owners = obj["metadata"].get("ownerReferences") or []
        return await self._refer(what, obj, [each for each in owners if each.get("uid") != self.uid])

    async def _refer(self, what: Resource, obj: Object, owners: list[Object]) -> Object | None:
        metadata = obj["metadata"]
        patch = {
            "metadata": {"ownerReferences": owners or None, "resourceVersion": metadata["resourceVersion"]}
        }
        try:
            return await self.client.patch(
                self.key.tenant,
                what,
                metadata["name"],
                patch,
                namespace=self.key.namespace,
                kind=Patch.MERGE,
            )
        except NotFound:
            return None
        except Conflict:
            # Somebody changed it. What became of it, the mirror will tell, and we look again.
            return None
