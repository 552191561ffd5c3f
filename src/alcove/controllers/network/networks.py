"""Networks: what stands behind each, the services that it has, and what its status says.

    Pending ──▶ Ready          what its provider makes for it is there, and its DNS has an address
       └──────▶ Failed         it cannot be as written; the message says why
    any ──deleted──▶ Terminating ──▶ gone, when nothing is in it any more (`ending.py`)

What a network needs in ring0 is its provider's to decide and make (`network/providers`).
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import meta, objects
from alcove.api.errors import AlreadyExists, Forbidden, Invalid
from alcove.api.ids import TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, Index, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import NETWORKS, PODS, SERVICES
from alcove.controllers import conditions
from alcove.controllers.concurrency import together
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.key_waiters import KeyWaiters
from alcove.controllers.network.teardown import NetworkTeardown, is_in_network
from alcove.controllers.network.tenancy import TenantLookup
from alcove.network import owners, wellknown
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.network.providers.base import Provisioning
from alcove.network.service_ranges import SERVICE_RANGES, service_ranges
from alcove.vpc.defaults import DEFAULT_RANGE
from alcove.vpc.errors import AddressUnavailable, RequestRefused, VpcError
from alcove.vpc.ranges import RangeUsage
from alcove.vpc.vnis import VniAllocator
from alcove.vpc.vpc_cache import VpcCache, spec_of

FINALIZER = "arktos.futurewei.com/network"
PATIENCE_SECONDS = 2.0
"""What a new network waits for is told after this."""
RETRY_SECONDS = 15.0
"""What failed because of others is looked at again after this, whatever happened."""

WAITING_FOR_DNS = "waiting for DNS service IP assigned"
ENDING = "waiting for resource cleanup"

JOINED: Index = lambda obj: (network_of(obj),)  # noqa: E731
"""An index of pods and services: the network that they join."""


def turned_ready(change: ObjectChange) -> bool:
    """Whether a network can be used now, or otherwise than before."""
    old, new = change.old or {}, change.obj
    if change.kind is ChangeType.DELETED or objects.get(new, "status", "phase") != "Ready":
        return False
    return any(
        objects.get(old, *path) != objects.get(new, *path)
        for path in (("status", "phase"), ("status", "subnets"), ("spec", "service"))
    )


class NetworkController(Controller):
    name = "network"
    resource = NETWORKS
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self._networks = self.mirror(NETWORKS)
        self._pods = self.mirror(PODS, {"joined": JOINED})
        self._services = self.mirror(SERVICES, {"joined": JOINED})
        self._tenancy = TenantLookup(self)
        self._backings = ProviderNetworks(cache)
        self._providers = context.options.providers
        usage = RangeUsage([DEFAULT_RANGE, *SERVICE_RANGES])
        cache.vpcs.subscribe(usage.changed)
        self._provisioning = Provisioning(
            backings=self._backings,
            numbers=VniAllocator(cache),
            providers=self._providers,
            fresh_range=usage.fresh,
        )
        self._waiting = KeyWaiters()
        """Networks that cannot be yet, by the VPC that they want."""
        self._ending = NetworkTeardown(self._providers, self._backings, self._pods, self._services)
        self.on(self._networks)
        self.on(self._tenancy.tenants, self._of_tenant)
        self.on(self._services, self._of_service)
        self.on(self._pods, self._of_user)
        for mirror in (cache.vpcs, cache.subnets, cache.dividers):
            self.on(mirror, self._of_mark)

    async def fresh(self, key: ObjectKey) -> None:
        await super().fresh(key)
        await self._cache.caught_up(self._cache.vpcs, self._cache.subnets, self._cache.dividers)

    # Whom changes concern

    def _of_mark(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The network that has the VPC, subnet or divider, and those that want the VPC."""
        within = spec_of(change.obj, "vpc")
        found = set(self._waiting.take(within or change.key.name))
        owner = owners.owner_of(change.obj)
        if owner is None and within:
            # A subnet written by ring0, in a network's VPC.
            vpc = self._cache.vpc(within)
            owner = owners.owner_of(vpc) if vpc else None
        plane = self._tenancy.plane_of(owner.tenant) if owner else None
        if owner and plane:
            found.add(ObjectKey(plane, owner.tenant, "", owner.name))
        return found

    def _of_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """A tenant that went with its API server could not delete its networks one by one."""
        if change.kind is not ChangeType.DELETED:
            return ()
        left = self._backings.of_tenant(TenantId(change.key.name))
        return [ObjectKey(HOME, owner.tenant, "", owner.name) for owner in left]

    def _of_service(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Its own two services; of the others only that they went, when it waits for that."""
        if wellknown.is_wellknown(change.obj):
            return (change.key.of(network_of(change.obj), ""),)
        return self._of_user(change)

    def _of_user(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """A network waits for who is in it only when it is to be deleted."""
        if change.kind is ChangeType.UPDATED and is_in_network(change.obj):
            return ()
        key = change.key.of(network_of(change.obj), "")
        network = self._networks.get(key) if change.kind is not ChangeType.ADDED else None
        return (key,) if network is not None and "deletionTimestamp" in network["metadata"] else ()

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        network, owner = self._networks.get(key), TenantNetworkId(key.tenant, key.name)
        self._waiting.forget(key)
        if network is None:
            if await self._tenancy.is_gone(key, NETWORKS):
                await self._ending.release(owner)
            return DONE
        if "deletionTimestamp" in network["metadata"]:
            return await self._end(key, network, owner)
        if FINALIZER not in (network["metadata"].get("finalizers") or ()):
            network = await self._hold(key, network)
        try:
            backing = await self._back(owner, network)
            await self._serve(key, owner, network, backing)
        except VpcError as error:
            self._waiting.add(key, self._providers.awaited_vpcs(owner, network))
            return await self._tell_of(key, network, error)
        return DONE

    async def _tell_of(self, key: ObjectKey, network: Object, error: VpcError) -> Result:
        """What passes within moments is not worth a write: most networks wait only for their own making."""
        if isinstance(error, AddressUnavailable):
            age = self.clock() - meta.parse_time(network["metadata"]["creationTimestamp"])
            if age < PATIENCE_SECONDS:
                return Result(after_seconds=PATIENCE_SECONDS)
        phase = "Failed" if isinstance(error, RequestRefused) else "Pending"
        await self._tell(key, network, phase, str(error))
        return Result(after_seconds=RETRY_SECONDS)

    async def _hold(self, key: ObjectKey, network: Object) -> Object:
        network["metadata"].setdefault("finalizers", []).append(FINALIZER)
        return await self.client(key).update(key.tenant, NETWORKS, network)

    async def _back(self, owner: TenantNetworkId, network: Object) -> ProviderNetwork:
        provider = self._providers.of(network)
        await provider.provision(self._provisioning, owner, network)
        backing = provider.backing(self._backings, owner, network)
        if backing is None:
            raise AddressUnavailable("waiting for its subnets to be provisioned")
        return backing

    async def _serve(
        self, key: ObjectKey, owner: TenantNetworkId, network: Object, backing: ProviderNetwork
    ) -> None:
        desired = (wellknown.dns_service(owner), wellknown.api_service(owner))
        await together(self._ensure(key, each) for each in desired)
        dns = self._services.get(key.of(wellknown.dns_name(key.name), wellknown.DNS_NAMESPACE)) or {}
        address = objects.get(dns, "spec", "clusterIP", default="")
        if not address:
            raise AddressUnavailable(WAITING_FOR_DNS)
        message = self._providers.of(network).ready_message
        await self._tell(key, network, "Ready", message, backing, address)

    async def _ensure(self, key: ObjectKey, desired: Object) -> None:
        namespace, name = objects.namespace(desired), objects.name(desired)
        there = self._services.get(key.of(name, namespace))
        if there is not None:
            if network_of(there) != key.name:
                raise RequestRefused(f'service "{namespace}/{name}" is there already, in another network')
            return
        try:
            await self.client(key).create(key.tenant, SERVICES, desired)
        except AlreadyExists:
            pass
        except Invalid as error:
            raise RequestRefused(error.message) from error
        except Forbidden as error:
            # Tenant or namespace is on its way out.
            raise AddressUnavailable(error.message) from error

    # Telling

    async def _tell(
        self,
        key: ObjectKey,
        network: Object,
        phase: str,
        message: str,
        backing: ProviderNetwork | None = None,
        dns: str = "",
        *,
        more: tuple[Condition, ...] = (),
    ) -> None:
        before = network.get("status") or {}
        status = {**before, "phase": phase, "message": message}
        if backing is not None:
            status |= _described(network, backing)
        if dns:
            status["dnsServiceIP"] = dns
        ready = Condition("Ready", phase == "Ready", phase, message)
        there = before.get("conditions") or []
        status["conditions"] = conditions.updated(there, [ready, *more], self.clock())
        if status == before:
            return
        await self.client(key).update(
            key.tenant, NETWORKS, {**network, "status": status}, subresource="status"
        )
        self._announce(key, network, phase, message, before)

    def _announce(self, key: ObjectKey, network: Object, phase: str, message: str, before: Object) -> None:
        whole = {**network, "apiVersion": NETWORKS.api_version, "kind": NETWORKS.kind}
        which = f"{key.tenant}/{key.name}"
        if phase == "Failed":
            told = f"failed to provision network {which}: {message}"
            self.events.warning(key.plane, whole, "FailedProvision", told)
        elif phase == "Ready" and before.get("phase") != "Ready":
            self.events.normal(
                key.plane, whole, "SuccessfulProvision", f"successfully provision network {which}"
            )

    # Going

    async def _end(self, key: ObjectKey, network: Object, owner: TenantNetworkId) -> Result:
        """Waits for what is in the network, takes down what was made for it, then lets it go."""
        if FINALIZER not in (network["metadata"].get("finalizers") or ()):
            return DONE
        users = self._ending.users(key)
        rest = users or await self._ending.take_down(self.client(key), key, owner)
        if rest:
            condition = Condition("Empty", False, "InUse", rest)
            await self._tell(key, network, "Terminating", ENDING, more=(condition,))
            return DONE if users else Result(after_seconds=self._ending.LOOK_SECONDS)
        kept = [each for each in network["metadata"]["finalizers"] if each != FINALIZER]
        network["metadata"]["finalizers"] = kept
        await self.client(key).update(key.tenant, NETWORKS, network)
        return DONE


def _described(network: Object, backing: ProviderNetwork) -> Object:
    services = service_ranges(network, [backing.network])
    return {
        "vpc": backing.vpc,
        "vni": backing.vni,
        "cidr": str(backing.network),
        "subnets": list(backing.subnets),
        "serviceCIDRs": [str(each) for each in services],
    }
