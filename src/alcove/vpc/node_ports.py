"""Node ports: the owner of the endpoint that claims a port holds that port on all droplets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import AlreadyExists
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import NODE_PORT, OWNER_LABEL
from alcove.api.node_ports import PORTS, claim_name
from alcove.api.objects import Object
from alcove.client.resources import VPC_ENDPOINTS
from alcove.vpc.addressing import settle
from alcove.vpc.errors import AddressTaken, AddressUnavailable, OutOfRange
from alcove.vpc.vpc_cache import VpcCache, key_of

ATTEMPTS_MAX = 256


class PortPurpose(Struct, frozen=True, kw_only=True):
    """The owner and protocol of a node port."""

    owner_uid: str
    what: str
    vpc: str
    vni: int
    protocol: str
    """`TCP`, `UDP` or `SCTP`."""


class NodePortClaims:
    def __init__(self, cache: VpcCache) -> None:
        self._cache = cache

    async def take(self, port: int, owner: PortPurpose) -> None:
        """Claim this port. Safe to repeat. Raises OutOfRange and AddressTaken."""
        if port not in PORTS:
            raise OutOfRange(f"port {port} is not in the valid range {PORTS.start}-{PORTS.stop - 1}")
        if not await self._claim(port, owner):
            raise AddressTaken(f"port {port} is already allocated")

    async def draw(self, purpose: str, owner: PortPurpose) -> int:
        """Claim and return a free port: after a crash, the same one for the same owner and purpose.

        Raises AddressUnavailable.
        """
        for port in islice(_candidates(f"{owner.owner_uid}/{purpose}"), ATTEMPTS_MAX):
            if await self._claim(port, owner):
                return port
        raise AddressUnavailable("no free port was found")

    async def _claim(self, port: int, owner: PortPurpose) -> bool:
        name = claim_name(port, owner.protocol)
        endpoint = self._cache.endpoints.get(key_of(name))
        if endpoint is None:
            try:
                await self._cache.client.create(SYSTEM, VPC_ENDPOINTS, self._build(name, owner))
                return True
            except AlreadyExists:
                endpoint = await self._cache.client.get(SYSTEM, VPC_ENDPOINTS, name)
        return objects.labels(endpoint).get(OWNER_LABEL) == owner.owner_uid

    def _build(self, name: str, owner: PortPurpose) -> Object:
        spec: Object = {"type": NODE_PORT, "vpc": owner.vpc, "vni": owner.vni, "pod": owner.what}
        endpoint: Object = {
            "metadata": {"name": name, "labels": {OWNER_LABEL: owner.owner_uid}},
            "spec": spec,
        }
        settle(self._cache, endpoint, "")
        return endpoint


def _candidates(seed: str) -> Iterator[int]:
    attempt = 0
    while True:
        digest = hashlib.blake2b(f"{seed}/{attempt}".encode(), digest_size=8).digest()
        yield PORTS[int.from_bytes(digest) % len(PORTS)]
        attempt += 1
