"""The Network controller: provisions a network, creates its DNS and API services, and updates its status.

    Pending ──▶ Ready          the provider's objects are provisioned, and the DNS service has an address
       └──────▶ Failed         the spec cannot be provisioned; the message says why
    any ──deleted──▶ Terminating ──▶ removed, when no pods and services use it (`teardown.py`)

The objects that a network needs in ring0 are created by its provider (`network/providers`).
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import meta, objects
from alcove.api.errors import AlreadyExists, Forbidden, Invalid
from alcove.api.ids import TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.api.service_ips import SERVICE_RANGES, is_external, known_ranges
from alcove.client.changes import ChangeType, Index, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import NETWORKS, PODS, SERVICES
from alcove.controllers import conditions
from alcove.controllers.concurrency import gather_all
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.key_waiters import KeyWaiters
from alcove.controllers.network.teardown import NetworkTeardown, is_in_network
from alcove.controllers.network.tenancy import TenantLookup
from alcove.network import owners, wellknown
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.network.providers.base import Provisioning
from alcove.network.service_ranges import service_ranges
from alcove.vpc.defaults import DEFAULT_RANGE
from alcove.vpc.errors import AddressUnavailable, RequestRefused, VpcError
from alcove.vpc.ranges import RangeUsage
from alcove.vpc.vnis import VniAllocator
from alcove.vpc.vpc_cache import VpcCache, spec_of

FINALIZER = "arktos.futurewei.com/network"
PATIENCE_SECONDS = 2.0
"""The status of a new network reports what it waits for only after this time."""
RETRY_SECONDS = 15.0
"""A network that could not be provisioned, or not be released, is reconciled again after this, even without a
change."""

WAITING_FOR_SERVICES = "waiting for its services to be created"
WAITING_FOR_DNS = "waiting for DNS service IP assigned"
ENDING = "waiting for resource cleanup"

JOINED: Index = lambda obj: (network_of(obj),)  # noqa: E731
"""An index of pods and services: the network that they are in."""


def became_ready(change: ObjectChange) -> bool:
    """Whether the network has become Ready, or is Ready and changed its subnets or service ranges."""
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
        """Networks that could not be provisioned, by the VPC that they need."""
        self._teardown = NetworkTeardown(self._providers, self._backings, self._pods, self._services)
        self.on(self._networks)
        self.on(self._tenancy.tenants, self._of_tenant)
        self.on(self._services, self._of_service)
        self.on(self._pods, self._of_user)
        for mirror in (cache.vpcs, cache.subnets, cache.dividers):
            self.on(mirror, self._of_vpc_object)

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await super().wait_for_mirrors(key)
        await self._cache.caught_up(self._cache.vpcs, self._cache.subnets, self._cache.dividers)

    # Keys to enqueue

    def _of_vpc_object(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The network that owns the VPC, subnet or divider, and those that wait for the VPC."""
        vpc_name = spec_of(change.obj, "vpc")
        keys = set(self._waiting.take(vpc_name or change.key.name))
        owner = owners.owner_of(change.obj)
        if owner is None and vpc_name:
            # A subnet that ring0's operator created in a network's VPC.
            vpc = self._cache.vpc(vpc_name)
            owner = owners.owner_of(vpc) if vpc else None
        plane = self._tenancy.plane_of(owner.tenant) if owner else None
        if owner and plane:
            keys.add(ObjectKey(plane, owner.tenant, "", owner.name))
        return keys

    def _of_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """All networks of a deleted tenant: a dedicated plane that was removed did not delete them one by
        one."""
        if change.kind is not ChangeType.DELETED:
            return ()
        remaining = self._backings.of_tenant(TenantId(change.key.name))
        return [ObjectKey(HOME, owner.tenant, "", owner.name) for owner in remaining]

    def _of_service(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The network of its DNS or API service; for other services, only a terminating network."""
        if wellknown.is_wellknown(change.obj):
            return (change.key.of(network_of(change.obj), ""),)
        return self._of_user(change)

    def _of_user(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The network that a pod or service has left, if the network is terminating."""
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
            is_gone = await self._tenancy.is_gone(key, NETWORKS)
            # Its finalizer was removed by another client: pods may still have addresses in it.
            remaining = await self._teardown.release(owner) if is_gone else ""
            return Result(after_seconds=RETRY_SECONDS) if remaining else DONE
        if "deletionTimestamp" in network["metadata"]:
            return await self._terminate(key, network, owner)
        if FINALIZER not in (network["metadata"].get("finalizers") or ()):
            network = await self._add_finalizer(key, network)
        try:
            backing = await self._provision(owner, network)
            await self._ensure_services(key, owner, network, backing)
        except VpcError as error:
            self._waiting.add(key, self._providers.awaited_vpcs(owner, network))
            return await self._report_error(key, network, error)
        return DONE

    async def _report_error(self, key: ObjectKey, network: Object, error: VpcError) -> Result:
        """Writes the error to the status. A new network that waits for its objects is not reported before
        PATIENCE_SECONDS, because most become ready sooner."""
        if isinstance(error, AddressUnavailable):
            age = self.clock() - meta.parse_time(network["metadata"]["creationTimestamp"])
            if age < PATIENCE_SECONDS:
                return Result(after_seconds=PATIENCE_SECONDS)
        phase = "Failed" if isinstance(error, RequestRefused) else "Pending"
        await self._update_status(key, network, phase, str(error))
        return Result(after_seconds=RETRY_SECONDS)

    async def _add_finalizer(self, key: ObjectKey, network: Object) -> Object:
        network["metadata"].setdefault("finalizers", []).append(FINALIZER)
        return await self.client(key).update(key.tenant, NETWORKS, network)

    async def _provision(self, owner: TenantNetworkId, network: Object) -> ProviderNetwork:
        provider = self._providers.of(network)
        await provider.provision(self._provisioning, owner, network)
        backing = provider.backing(self._backings, owner, network)
        if backing is None:
            raise AddressUnavailable("waiting for its subnets to be provisioned")
        return backing

    async def _ensure_services(
        self, key: ObjectKey, owner: TenantNetworkId, network: Object, backing: ProviderNetwork
    ) -> None:
        if not known_ranges(network):
            # The API server gives services no addresses before it knows from where.
            network = await self._update_status(key, network, "Pending", WAITING_FOR_SERVICES, backing)
        [first, *_] = service_ranges(network, [backing.network])
        desired = wellknown.services_of(owner, None if is_external(network) else first)
        dns, *_ = await gather_all(self._ensure(key, each) for each in desired)
        address = objects.get(dns, "spec", "clusterIP", default="")
        if not address:
            raise AddressUnavailable(WAITING_FOR_DNS)
        message = self._providers.of(network).ready_message
        await self._update_status(key, network, "Ready", message, backing, address)

    async def _ensure(self, key: ObjectKey, desired: Object) -> Object:
        """The service as it is, or is created."""
        namespace, name = objects.namespace(desired), objects.name(desired)
        existing = self._services.get(key.of(name, namespace))
        if existing is not None:
            if network_of(existing) != key.name:
                raise RequestRefused(f'service "{namespace}/{name}" already exists in another network')
            return existing
        try:
            return await self.client(key).create(key.tenant, SERVICES, desired)
        except AlreadyExists:
            return {}  # The watch event of its creation enqueues the network again.
        except Invalid as error:
            if desired["spec"].pop("clusterIP", None):
                return await self._ensure(key, desired)  # Any other address will do.
            raise RequestRefused(error.message) from error
        except Forbidden as error:
            # The tenant or namespace is terminating.
            raise AddressUnavailable(error.message) from error

    # Status and events

    async def _update_status(
        self,
        key: ObjectKey,
        network: Object,
        phase: str,
        message: str,
        backing: ProviderNetwork | None = None,
        dns: str = "",
        *,
        extra: tuple[Condition, ...] = (),
    ) -> Object:
        """The network with the new status."""
        before = network.get("status") or {}
        status = {**before, "phase": phase, "message": message}
        if backing is not None:
            status |= _described(network, backing)
        if dns:
            status["dnsServiceIP"] = dns
        ready = Condition("Ready", phase == "Ready", phase, message)
        old_conditions = before.get("conditions") or []
        status["conditions"] = conditions.updated(old_conditions, [ready, *extra], self.clock())
        if status == before:
            return network
        new = {**network, "status": status}
        updated = await self.client(key).update(key.tenant, NETWORKS, new, subresource="status")
        self._record_event(key, network, phase, message, before)
        return updated

    def _record_event(
        self, key: ObjectKey, network: Object, phase: str, message: str, before: Object
    ) -> None:
        regarding = {**network, "apiVersion": NETWORKS.api_version, "kind": NETWORKS.kind}
        name = f"{key.tenant}/{key.name}"
        if phase == "Failed":
            event_message = f"failed to provision network {name}: {message}"
            self.events.warning(key.plane, regarding, "FailedProvision", event_message)
        elif phase == "Ready" and before.get("phase") != "Ready":
            self.events.normal(
                key.plane, regarding, "SuccessfulProvision", f"successfully provision network {name}"
            )

    # Teardown

    async def _terminate(self, key: ObjectKey, network: Object, owner: TenantNetworkId) -> Result:
        """Waits until no pod or service uses the network, deletes its objects, then removes the finalizer."""
        if FINALIZER not in (network["metadata"].get("finalizers") or ()):
            return DONE
        users = self._teardown.users(key)
        remaining = users or await self._teardown.take_down(self.client(key), key, owner)
        if remaining:
            condition = Condition("Empty", False, "InUse", remaining)
            await self._update_status(key, network, "Terminating", ENDING, extra=(condition,))
            return DONE if users else Result(after_seconds=self._teardown.LOOK_SECONDS)
        finalizers = [each for each in network["metadata"]["finalizers"] if each != FINALIZER]
        network["metadata"]["finalizers"] = finalizers
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
