"""Allocates VNIs: the owner of the divider whose name claims a VNI holds the VNI."""

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
        """Claim and return a free VNI for the owner; repeated calls return the same one.

        `divider` is the object that will hold it; its name and VNI are set here. Raises AddressUnavailable.
        """
        for candidate in islice(claims.vni_candidates(owner_uid), ATTEMPTS_MAX):
            if await self._claim(candidate, owner_uid, divider) is None:
                return candidate
        raise AddressUnavailable("no free VNI was found")

    async def take(self, vni: int, owner_uid: str, divider: Object) -> None:
        """Claim this VNI. Raises RequestRefused if another owner holds it."""
        if holder := await self._claim(vni, owner_uid, divider):
            raise RequestRefused(f'VNI {vni} is taken by VPC "{spec_of(holder, "vpc")}"')

    async def _claim(self, vni: int, owner_uid: str, divider: Object) -> Object | None:
        """Returns None if the owner holds the VNI now, else the divider that holds it."""
        name = claims.divider_name(vni, 0)
        existing = self._cache.dividers.get(key_of(name))
        if existing is None:
            base = divider.get("metadata") or {}
            metadata = {**base, "name": name, "labels": {**base.get("labels", {}), OWNER_LABEL: owner_uid}}
            claim = {"metadata": metadata, "spec": {**divider["spec"], "vni": vni}}
            try:
                await self._cache.client.create(SYSTEM, DIVIDERS, claim)
                return None
            except AlreadyExists:
                existing = await self._cache.client.get(SYSTEM, DIVIDERS, name)
        return None if objects.labels(existing).get(OWNER_LABEL) == owner_uid else existing
