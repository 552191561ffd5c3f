"""The default VPC and its subnet: the range of all networks that have no VPC of their own."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

from alcove.api.addresses import Network
from alcove.api.errors import AlreadyExists
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.resources import SUBNETS, VPCS
from alcove.vpc import claims, ranges
from alcove.vpc.states import FINALIZER
from alcove.vpc.vpc_cache import VpcCache

DEFAULT_VPC = "vpc0"
DEFAULT_SUBNET = "net0"
DEFAULT_RANGE = ipaddress.IPv4Network("100.96.0.0/11")
"""Two million addresses that neither tenants' private ranges nor the Internet use."""


def vpc(name: str, network: Network | None, **more: object) -> Object:
    """A VPC to be created; without a range, the provider chooses a free one."""
    spec: Object = {"status": "Init", **more}
    if network is not None:
        ranges.write(spec, network)
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": spec}


def subnet(name: str, vpc_name: str, network: Network) -> Object:
    spec: Object = {"vpc": vpc_name, "status": "Init"}
    ranges.write(spec, network)
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": spec}


async def ensure_defaults(cache: VpcCache) -> None:
    if cache.vpc(DEFAULT_VPC) is None:
        with suppress(AlreadyExists):
            desired = vpc(DEFAULT_VPC, DEFAULT_RANGE, vni=claims.DEFAULT_VNI)
            await cache.client.create(SYSTEM, VPCS, desired)
    if cache.subnet(DEFAULT_SUBNET) is None:
        with suppress(AlreadyExists):
            desired = subnet(DEFAULT_SUBNET, DEFAULT_VPC, DEFAULT_RANGE)
            await cache.client.create(SYSTEM, SUBNETS, desired)
