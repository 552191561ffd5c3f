"""Ports of droplets: whoever has the endpoint that a port is claimed by has it, on all droplets at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import AlreadyExists
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import NODE_PORT, OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.resources import VPC_ENDPOINTS
from alcove.vpc import claims
from alcove.vpc.addressing import settle
from alcove.vpc.errors import AddressTaken, AddressUnavailable, OutOfRange
from alcove.vpc.vpc_cache import VpcCache, key_of

PORTS = range(30000, 32768)
"""The ports that can be had. What droplets themselves use is beyond."""
ATTEMPTS_MAX = 256


class PortPurpose(Struct, frozen=True, kw_only=True):
    """For whom a port is."""

    owner_uid: str
    what: str
    vpc: str
    vni: int
    protocol: str
    """`TCP`, `UDP` or `SCTP`."""


class NodePortClaims:
    def __init__(self, cache: VpcCache) -> None:
        self._cache = cache

    async def take(self, port: int, door: PortPurpose) -> None:
        """This very port. Safe to repeat. Raises OutOfRange, Taken."""
        if port not in PORTS:
            raise OutOfRange(f"port {port} is not in the valid range {PORTS.start}-{PORTS.stop - 1}")
        if not await self._claim(port, door):
            raise AddressTaken(f"port {port} is already allocated")

    async def draw(self, purpose: str, door: PortPurpose) -> int:
        """A free port. For the same owner and purpose the same one, if it is asked again after a crash."""
        for port in islice(_candidates(f"{door.owner_uid}/{purpose}"), ATTEMPTS_MAX):
            if await self._claim(port, door):
                return port
        raise AddressUnavailable("no free port was found")

    async def _claim(self, port: int, door: PortPurpose) -> bool:
        name = claims.port_name(port, door.protocol)
        found = self._cache.endpoints.get(key_of(name))
        if found is None:
            try:
                await self._cache.client.create(SYSTEM, VPC_ENDPOINTS, self._build(name, door))
                return True
            except AlreadyExists:
                found = await self._cache.client.get(SYSTEM, VPC_ENDPOINTS, name)
        return objects.labels(found).get(OWNER_LABEL) == door.owner_uid

    def _build(self, name: str, door: PortPurpose) -> Object:
        spec: Object = {"type": NODE_PORT, "vpc": door.vpc, "vni": door.vni, "pod": door.what}
        endpoint: Object = {"metadata": {"name": name, "labels": {OWNER_LABEL: door.owner_uid}}, "spec": spec}
        settle(self._cache, endpoint, "")
        return endpoint


def _candidates(seed: str) -> Iterator[int]:
    attempt = 0
    while True:
        digest = hashlib.blake2b(f"{seed}/{attempt}".encode(), digest_size=8).digest()
        yield PORTS[int.from_bytes(digest) % len(PORTS)]
        attempt += 1
