"""Pods and their endpoints: each pod gets the addresses that it wants, of its network, on its node.

    no endpoint ──▶ claimed: annotated, readiness "false" ──bound to a node──▶ provisioned: readiness "true"

What cannot be (an address outside its subnet) makes the pod Failed; what is not there yet (its network, a
subnet, a free address) is waited for, with an event that says so.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from alcove.api import objects
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import NETWORKS, PODS, VPC_ENDPOINTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.key_waiters import KeyWaiters
from alcove.controllers.network.networks import JOINED, turned_ready
from alcove.controllers.network.teardown import is_in_network
from alcove.controllers.network.tenancy import TenantLookup
from alcove.network import portnames
from alcove.network.nics import RequestedNic
from alcove.network.owners import OwnerRef, TenantNetworkId, owner_of
from alcove.network.provider_networks import ProviderNetworks
from alcove.vpc.addressing import EndpointPurpose, is_settled, settle
from alcove.vpc.allocator import AddressAllocator
from alcove.vpc.errors import AddressUnavailable, RangeFull, RequestRefused
from alcove.vpc.states import is_provisioned
from alcove.vpc.vpc_cache import VpcCache, spec_of

VPC_ANNOTATION = "mizar.com/vpc"
SUBNET_ANNOTATION = "mizar.com/subnet"
READINESS_ANNOTATION = "arktos.futurewei.com/network-readiness"
FAILED = "FailedProvision"
NICS_IGNORED = "NicsIgnored"

RETRY_SECONDS = 30.0
"""A pod that waits is looked at again after this, and whenever what it waits for comes."""
WOKEN_MAX = 16
"""So many of those who wait for an address are woken by one that is given back: not all of them still want it."""


class PodNetworkController(Controller):
    name = "pod-network"
    resource = PODS
    workers = 64

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self._networks = self.mirror(NETWORKS)
        self._pods = self.mirror(PODS, {"joined": JOINED})
        self._tenancy = TenantLookup(self)
        self._providers = context.options.providers
        self._backings = ProviderNetworks(cache)
        self._allocator = AddressAllocator(cache, context.clock)
        self._waiting = KeyWaiters()
        """Pods that wait for an address, by the subnets that it may be of."""
        self.on(self._pods, self._of_pod)
        self.on(self._networks, self._of_network)
        self.on(cache.endpoints, self._of_endpoint)
        self.on(cache.subnets, self._of_subnet)

    async def fresh(self, key: ObjectKey) -> None:
        await super().fresh(key)
        await self._cache.caught_up(self._cache.endpoints)

    # Whom changes concern

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED:
            self._waiting.forget(change.key)
            return ()
        if change.kind is ChangeType.UPDATED and is_attended(change.obj):
            return ()
        return (change.key,)

    def _of_network(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        return self._pods.find_keys("joined", key.plane, key.tenant, key.name) if turned_ready(change) else ()

    def _of_endpoint(self, change: ObjectChange) -> Iterable[ObjectKey]:
        ref = OwnerRef.parse(spec_of(change.obj, "pod"))
        plane = self._tenancy.plane_of(ref.tenant) if ref else None
        found = [ObjectKey(plane, ref.tenant, ref.namespace, ref.name)] if ref and plane else []
        if change.kind is ChangeType.DELETED:
            found += self._waiting.take(spec_of(change.obj, "net"), WOKEN_MAX)
        return found

    def _of_subnet(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """A new subnet is room for those who wait in its VPC."""
        vpc = self._cache.vpc(spec_of(change.obj, "vpc"))
        owner = owner_of(vpc) if vpc else None
        plane = self._tenancy.plane_of(owner.tenant) if owner else None
        if (
            change.kind is ChangeType.DELETED
            or owner is None
            or plane is None
            or not is_provisioned(change.obj)
        ):
            return ()
        if change.old is not None and is_provisioned(change.old):
            return ()
        return self._pods.find_keys("joined", plane, owner.tenant, owner.name)

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        pod = self._pods.get(key)
        self._waiting.forget(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return DONE  # Its addresses are its own until it is gone (`orphans.py`).
        there = self._cache.endpoints_of(pod["metadata"]["uid"])
        if not is_in_network(pod):
            await self._release(there)
            return DONE
        try:
            endpoints = await self._claim_all(key, pod, there)
        except RequestRefused as error:
            await self._release(there)
            await self._fail(key, pod, str(error))
            return DONE
        except AddressUnavailable as error:
            self._warn(key, pod, str(error))
            await self._annotate(key, pod, {READINESS_ANNOTATION: "false"})
            return Result(after_seconds=RETRY_SECONDS)
        await self._tell_attached(key, pod, [await self._settle(pod, each) for each in endpoints])
        return DONE

    async def _tell_attached(self, key: ObjectKey, pod: Object, endpoints: list[Object]) -> None:
        marks = {READINESS_ANNOTATION: "false"}
        if endpoints:
            is_ready = all(is_provisioned(each) for each in endpoints)
            marks = {
                VPC_ANNOTATION: spec_of(endpoints[0], "vpc"),
                SUBNET_ANNOTATION: spec_of(endpoints[0], "net"),
                READINESS_ANNOTATION: "true" if is_ready else "false",
            }
        await self._annotate(key, pod, marks)

    # Addresses

    async def _claim_all(self, key: ObjectKey, pod: Object, there: list[Object]) -> list[Object]:
        """An endpoint for every nic, in order: those that it has, and new ones. If one cannot be had, none
        is taken. Nothing: its network is not ready, and will tell."""
        by_interface: dict[str, Object] = {}
        for endpoint in sorted(there, key=objects.name):
            # A claim whose answer was lost may have left a second one.
            if by_interface.setdefault(spec_of(endpoint, "itf"), endpoint) is not endpoint:
                await self._release([endpoint])
        if self._is_whole(pod, by_interface):
            # What a pod was given it keeps, whatever becomes of the network's plan.
            return list(by_interface.values())
        missing = [nic for nic in self._wanted(key, pod) if nic.interface not in by_interface]
        claimed: list[Object] = []
        try:
            self._allocator.check([nic.request for nic in missing])
            for nic in missing:
                claimed.append(await self._claim(key, pod, nic))
        except AddressUnavailable:
            if key in self._pods:
                self._waiting.add(key, (pool.net for nic in missing for pool in nic.request.pools))
            await self._release([*claimed, *by_interface.values()])
            raise
        return [*by_interface.values(), *claimed]

    def _is_whole(self, pod: Object, by_interface: Mapping[str, Object]) -> bool:
        """Whether the pod has an endpoint for every interface that it is to have."""
        first = next(iter(by_interface.values()), None)
        if first is None:
            return False
        provider = self._providers.of_vpc(spec_of(first, "vpc"))
        return all(name in by_interface for name in provider.interfaces(pod))

    def _wanted(self, key: ObjectKey, pod: Object) -> list[RequestedNic]:
        name = network_of(pod)
        network = self._networks.get(key.of(name, ""))
        if network is None:
            raise AddressUnavailable(f'network "{name}" not found')
        provider = self._providers.of(network)
        backing = provider.backing(self._backings, TenantNetworkId(key.tenant, name), network)
        if backing is None or objects.get(network, "status", "phase") != "Ready":
            return []
        if not provider.heeds_nics and objects.get(pod, "spec", "nics"):
            self._tell_ignored(key, pod, network["spec"]["type"])
        return provider.wanted_nics(self._backings, pod, network, backing)

    async def _claim(self, key: ObjectKey, pod: Object, nic: RequestedNic) -> Object:
        purpose = EndpointPurpose(
            owner_uid=pod["metadata"]["uid"],
            what=str(OwnerRef(key.tenant, key.namespace, key.name)),
            interface=nic.interface,
            droplet=spec_of(pod, "nodeName"),
            marks=portnames.mark(pod),
        )
        full: list[str] = []
        for pool in nic.request.pools:
            try:
                return await self._allocator.claim(pool, purpose, nic.request.chosen)
            except AddressUnavailable as error:
                full.append(str(error))
        raise RangeFull("; ".join(full))

    async def _settle(self, pod: Object, endpoint: Object) -> Object:
        """Tells the endpoint which node its pod is on."""
        node = spec_of(pod, "nodeName")
        if is_settled(self._cache, endpoint, node):
            return endpoint
        new = copy.deepcopy(endpoint)
        settle(self._cache, new, node)
        return await self._cache.client.update(SYSTEM, VPC_ENDPOINTS, new)

    async def _release(self, endpoints: Iterable[Object]) -> None:
        for each in endpoints:
            await self._cache.delete(VPC_ENDPOINTS, objects.name(each), each["metadata"]["uid"])

    # Telling

    async def _annotate(self, key: ObjectKey, pod: Object, desired: dict[str, str]) -> None:
        there = objects.annotations(pod)
        if all(there.get(name) == value for name, value in desired.items()):
            return
        # With the uid, a pod of the same name that came meanwhile is not meant.
        metadata = {"uid": pod["metadata"]["uid"], "annotations": desired}
        try:
            await self.client(key).patch(
                key.tenant, PODS, key.name, {"metadata": metadata}, namespace=key.namespace
            )
        except NotFound:
            pass

    async def _fail(self, key: ObjectKey, pod: Object, why: str) -> None:
        self._warn(key, pod, why)
        status = {**(pod.get("status") or {}), "phase": "Failed", "reason": FAILED, "message": why}
        try:
            await self.client(key).update(key.tenant, PODS, {**pod, "status": status}, subresource="status")
        except NotFound:
            pass

    def _warn(self, key: ObjectKey, pod: Object, why: str) -> None:
        self.events.warning(key.plane, _whole(pod), FAILED, why)

    def _tell_ignored(self, key: ObjectKey, pod: Object, network_type: str) -> None:
        message = f'nics were ignored: network "{network_of(pod)}" is {network_type}'
        self.events.normal(key.plane, _whole(pod), NICS_IGNORED, message)


def _whole(pod: Object) -> Object:
    return {**pod, "apiVersion": PODS.api_version, "kind": PODS.kind}


def is_attended(pod: Object) -> bool:
    """A pod that is on the network, on its node, and stays there: most changes of it are nothing new."""
    if not is_in_network(pod) or not spec_of(pod, "nodeName"):
        return False
    return objects.annotations(pod).get(READINESS_ANNOTATION) == "true"
