"""VNIs: whoever has the divider that a number is claimed by has the number."""

from __future__ import annotations

from itertools import islice

from alcove.api import objects
from alcove.api.errors import AlreadyExists
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.resources import DIVIDERS
from alcove.vpc import claims
from alcove.vpc.errors import AddressUnavailable, RequestRefused
from alcove.vpc.vpc_cache import VpcCache, key_of, spec_of

ATTEMPTS_MAX = 32


class VniAllocator:
    def __init__(self, cache: VpcCache) -> None:
        self._cache = cache

    async def draw(self, owner_uid: str, divider: Object) -> int:
        """A free number for the owner: the same one whenever it is asked again.

        `divider` is to hold it; it gets its name and number here. Raises Unavailable.
        """
        for candidate in islice(claims.vni_candidates(owner_uid), ATTEMPTS_MAX):
            if await self._claim(candidate, owner_uid, divider) is None:
                return candidate
        raise AddressUnavailable("no free VNI was found")

    async def take(self, vni: int, owner_uid: str, divider: Object) -> None:
        """This very number. Raises Refused where another has it."""
        if holder := await self._claim(vni, owner_uid, divider):
            raise RequestRefused(f'VNI {vni} is taken by VPC "{spec_of(holder, "vpc")}"')

    async def _claim(self, vni: int, owner_uid: str, divider: Object) -> Object | None:
        """None: the owner has it now; else the divider of who has it."""
        name = claims.divider_name(vni, 0)
        found = self._cache.dividers.get(key_of(name))
        if found is None:
            given = divider.get("metadata") or {}
            metadata = {**given, "name": name, "labels": {**given.get("labels", {}), OWNER_LABEL: owner_uid}}
            claim = {"metadata": metadata, "spec": {**divider["spec"], "vni": vni}}
            try:
                await self._cache.client.create(SYSTEM, DIVIDERS, claim)
                return None
            except AlreadyExists:
                found = await self._cache.client.get(SYSTEM, DIVIDERS, name)
        return None if objects.labels(found).get(OWNER_LABEL) == owner_uid else found
