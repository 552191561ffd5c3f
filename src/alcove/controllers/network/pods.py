"""Endpoints of pods: each pod gets the addresses that it requests, in its network, on its node.

    no endpoint ──▶ claimed: annotated, readiness "false" ──bound to a node──▶ provisioned: readiness "true"

An invalid request (such as an address outside its subnet) makes the pod Failed. For what is not available yet
(its network, a subnet, a free address) the pod waits, with an event.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from alcove.api import objects
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.core.pods.copies import READINESS_ANNOTATION, SUBNET_ANNOTATION, VPC_ANNOTATION
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import NETWORKS, PODS, VPC_ENDPOINTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.key_waiters import KeyWaiters
from alcove.controllers.network.networks import JOINED, became_ready
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

FAILED = "FailedProvision"
NICS_IGNORED = "NicsIgnored"

RETRY_SECONDS = 30.0
"""A waiting pod is reconciled again after this, and when its network, subnet or address becomes available."""
WOKEN_MAX = 16
"""Pods that are enqueued when one address is released: more than one, as some may no longer need it."""


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
        """Pods that wait for an address, by the subnets that they may use."""
        self.on(self._pods, self._of_pod)
        self.on(self._networks, self._of_network)
        self.on(cache.endpoints, self._of_endpoint)
        self.on(cache.subnets, self._of_subnet)

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await super().wait_for_mirrors(key)
        await self._cache.caught_up(self._cache.endpoints)

    # Keys to enqueue

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED:
            self._waiting.forget(change.key)
            return ()
        if change.kind is ChangeType.UPDATED and is_attached(change.obj):
            return ()
        return (change.key,)

    def _of_network(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        return self._pods.find_keys("joined", key.plane, key.tenant, key.name) if became_ready(change) else ()

    def _of_endpoint(self, change: ObjectChange) -> Iterable[ObjectKey]:
        ref = OwnerRef.parse(spec_of(change.obj, "pod"))
        plane = self._tenancy.plane_of(ref.tenant) if ref else None
        keys = [ObjectKey(plane, ref.tenant, ref.namespace, ref.name)] if ref and plane else []
        if change.kind is ChangeType.DELETED:
            keys += self._waiting.take(spec_of(change.obj, "net"), WOKEN_MAX)
        return keys

    def _of_subnet(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """All pods of the network that owns the VPC, when a new subnet in it is provisioned."""
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
            return DONE  # The pod keeps its addresses until it is deleted (`orphans.py`).
        existing = self._cache.endpoints_of(pod["metadata"]["uid"])
        if not is_in_network(pod):
            await self._release(existing)
            return DONE
        try:
            endpoints = await self._claim_all(key, pod, existing)
        except RequestRefused as error:
            await self._release(existing)
            await self._fail(key, pod, str(error))
            return DONE
        except AddressUnavailable as error:
            self._warn(key, pod, str(error))
            await self._annotate(key, pod, {READINESS_ANNOTATION: "false"})
            return Result(after_seconds=RETRY_SECONDS)
        pod = self._latest(key, pod)
        await self._annotate_attached(key, pod, [await self._update_node(pod, each) for each in endpoints])
        return DONE

    def _latest(self, key: ObjectKey, pod: Object) -> Object:
        """The pod as it is now: it is scheduled at the same time, and so most often bound when its addresses are claimed.
        Then its endpoints get their node at once, and nobody is told that they are not ready."""
        latest = self._pods.get(key)
        is_same = latest is not None and latest["metadata"]["uid"] == pod["metadata"]["uid"]
        return latest if latest is not None and is_same else pod

    async def _annotate_attached(self, key: ObjectKey, pod: Object, endpoints: list[Object]) -> None:
        annotations = {READINESS_ANNOTATION: "false"}
        if endpoints:
            is_ready = all(is_provisioned(each) for each in endpoints)
            annotations = {
                VPC_ANNOTATION: spec_of(endpoints[0], "vpc"),
                SUBNET_ANNOTATION: spec_of(endpoints[0], "net"),
                READINESS_ANNOTATION: "true" if is_ready else "false",
            }
        await self._annotate(key, pod, annotations)

    # Addresses

    async def _claim_all(self, key: ObjectKey, pod: Object, existing: list[Object]) -> list[Object]:
        """An endpoint for every NIC: existing ones first, then new ones. If one is unavailable, all are
        released. Empty if the network is not ready; the pod is enqueued when it is."""
        by_interface: dict[str, Object] = {}
        addresses = {each.get("ip") for each in objects.get(pod, "status", "podIPs") or ()}
        for endpoint in sorted(
            existing, key=lambda each: (spec_of(each, "ip") not in addresses, objects.name(each))
        ):
            # A claim whose response was lost may have left a second endpoint. The pod keeps the one that it uses.
            if by_interface.setdefault(spec_of(endpoint, "itf"), endpoint) is not endpoint:
                await self._release([endpoint])
        if self._is_complete(pod, by_interface):
            # A pod keeps its addresses, even if the network's spec has changed.
            return list(by_interface.values())
        missing = [nic for nic in self._requested_nics(key, pod) if nic.interface not in by_interface]
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

    def _is_complete(self, pod: Object, by_interface: Mapping[str, Object]) -> bool:
        """Whether the pod has an endpoint for every requested interface."""
        first = next(iter(by_interface.values()), None)
        if first is None:
            return False
        provider = self._providers.of_vpc(spec_of(first, "vpc"))
        return all(name in by_interface for name in provider.interfaces(pod))

    def _requested_nics(self, key: ObjectKey, pod: Object) -> list[RequestedNic]:
        name = network_of(pod)
        network = self._networks.get(key.of(name, ""))
        if network is None:
            raise AddressUnavailable(f'network "{name}" not found')
        provider = self._providers.of(network)
        backing = provider.backing(self._backings, TenantNetworkId(key.tenant, name), network)
        if backing is None or objects.get(network, "status", "phase") != "Ready":
            return []
        if not provider.heeds_nics and objects.get(pod, "spec", "nics"):
            self._report_ignored_nics(key, pod, network["spec"]["type"])
        return provider.wanted_nics(self._backings, pod, network, backing)

    async def _claim(self, key: ObjectKey, pod: Object, nic: RequestedNic) -> Object:
        purpose = EndpointPurpose(
            owner_uid=pod["metadata"]["uid"],
            what=str(OwnerRef(key.tenant, key.namespace, key.name)),
            interface=nic.interface,
            droplet=spec_of(pod, "nodeName"),
            marks=portnames.mark(pod),
        )
        messages: list[str] = []
        for pool in nic.request.pools:
            try:
                return await self._allocator.claim(pool, purpose, nic.request.chosen)
            except AddressUnavailable as error:
                messages.append(str(error))
        raise RangeFull("; ".join(messages))

    async def _update_node(self, pod: Object, endpoint: Object) -> Object:
        """Updates the endpoint with the node that its pod is bound to."""
        node = spec_of(pod, "nodeName")
        if is_settled(self._cache, endpoint, node):
            return endpoint
        new = copy.deepcopy(endpoint)
        settle(self._cache, new, node)
        return await self._cache.client.update(SYSTEM, VPC_ENDPOINTS, new)

    async def _release(self, endpoints: Iterable[Object]) -> None:
        for each in endpoints:
            await self._cache.delete(VPC_ENDPOINTS, objects.name(each), each["metadata"]["uid"])

    # Status and events

    async def _annotate(self, key: ObjectKey, pod: Object, desired: dict[str, str]) -> None:
        existing = objects.annotations(pod)
        if all(existing.get(name) == value for name, value in desired.items()):
            return
        # The uid prevents patching a new pod with the same name.
        metadata = {"uid": pod["metadata"]["uid"], "annotations": desired}
        try:
            await self.client(key).patch(
                key.tenant, PODS, key.name, {"metadata": metadata}, namespace=key.namespace
            )
        except NotFound:
            pass

    async def _fail(self, key: ObjectKey, pod: Object, message: str) -> None:
        self._warn(key, pod, message)
        status = {**(pod.get("status") or {}), "phase": "Failed", "reason": FAILED, "message": message}
        try:
            await self.client(key).update(key.tenant, PODS, {**pod, "status": status}, subresource="status")
        except NotFound:
            pass

    def _warn(self, key: ObjectKey, pod: Object, message: str) -> None:
        self.events.warning(key.plane, _regarding(pod), FAILED, message)

    def _report_ignored_nics(self, key: ObjectKey, pod: Object, network_type: str) -> None:
        message = f'nics were ignored: network "{network_of(pod)}" is {network_type}'
        self.events.normal(key.plane, _regarding(pod), NICS_IGNORED, message)


def _regarding(pod: Object) -> Object:
    return {**pod, "apiVersion": PODS.api_version, "kind": PODS.kind}


def is_attached(pod: Object) -> bool:
    """Whether the pod is bound to a node and its network is ready, so that updates of it can be ignored."""
    if not is_in_network(pod) or not spec_of(pod, "nodeName"):
        return False
    return objects.annotations(pod).get(READINESS_ANNOTATION) == "true"
