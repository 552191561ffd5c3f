"""Resolves the target of a webhook's client configuration: hosts by DNS, services by their EndpointSlices.

A DNS lookup occupies a thread that cannot be cancelled: each tenant may use only a few at a time, so that one
tenant's slow name servers do not delay other tenants.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from alcove.api import destinations, objects
from alcove.api.destinations import Address
from alcove.api.ids import TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.api.resources import ENDPOINT_SLICES, SERVICES
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError
from alcove.apiserver.reader import CacheReader
from alcove.component import host_names

SERVICE_NAME = "kubernetes.io/service-name"

THREADS = 16
LOOKUPS_PER_TENANT = 2
KEPT_SECONDS = 30.0
KEPT_MAX = 1024
SLICES_BYTES_MAX = 1 << 20
"""Of the EndpointSlices of a service among which one endpoint is chosen; further ones are not."""
NAME_LENGTH_MAX = 253
"""Characters of a host name: DNS has no longer ones, so none is looked up or remembered."""


class ResolvedEndpoint(Struct, frozen=True):
    """Addresses to try, in order, and their port."""

    addresses: tuple[Address, ...]
    port: int


class ServiceBackend(Struct, frozen=True):
    """A ready endpoint of a service."""

    address: Address
    port: int
    pod: str = ""
    """The pod of the service's namespace that the endpoint refers to; empty if it refers to none."""
    pod_uid: str = ""


class ResolvedService(Struct, frozen=True):
    network: str
    """The tenant's network that the service is in."""
    backends: tuple[ServiceBackend, ...] = ()
    """In random order; none if `external_name` is set."""
    external_name: str = ""


class OutboundResolver:
    def __init__(self, reader: CacheReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook-names")
        self._lookups: dict[TenantId, int] = {}
        self._cached: dict[str, tuple[float, tuple[Address, ...]]] = {}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def host(self, tenant: TenantId, host: str, port: int) -> ResolvedEndpoint:
        """The addresses of a URL's host; none if it is unknown. Raises WebhookError."""
        literal = destinations.parse(host)
        resolved = (literal,) if literal is not None else await self._look_up(tenant, host)
        return ResolvedEndpoint(resolved, port)

    async def _look_up(self, tenant: TenantId, host: str) -> tuple[Address, ...]:
        if len(host) > NAME_LENGTH_MAX + 1:  # With a dot at the end.
            return ()
        cached = self._cached.get(host)
        if cached is not None and cached[0] > self._clock():
            return cached[1]
        if self._lookups.get(tenant, 0) >= LOOKUPS_PER_TENANT:
            raise TooManyCalls
        self._lookups[tenant] = self._lookups.get(tenant, 0) + 1
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, _resolve, host)
        # The thread is occupied until it returns, even if the request was cancelled.
        work.add_done_callback(lambda _work: self._finish_lookup(tenant))
        resolved = await asyncio.shield(work)
        if len(self._cached) >= KEPT_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[host] = (self._clock() + KEPT_SECONDS, resolved)
        return resolved

    def _finish_lookup(self, tenant: TenantId) -> None:
        self._lookups[tenant] -= 1
        if not self._lookups[tenant]:
            del self._lookups[tenant]

    def service(self, tenant: TenantId, namespace: str, name: str, port: int) -> ResolvedService:
        """The service's ready endpoints at its port. Raises WebhookError."""
        service = self._reader.get(tenant, SERVICES, namespace, name)
        if service is None:
            raise WebhookError(f'service "{name}" not found')
        network, spec = network_of(service), service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return ResolvedService(network, external_name=spec.get("externalName", ""))
        service_port = _port(spec, port)
        if service_port is None:
            raise WebhookError(f'no service port {port} found for service "{name}"')
        backends = self._backends(tenant, namespace, name, service_port.get("name", ""))
        if not backends:
            raise WebhookError(f'no endpoints available for service "{name}"')
        return ResolvedService(network, tuple(random.sample(backends, len(backends))))

    def _backends(self, tenant: TenantId, namespace: str, name: str, port_name: str) -> list[ServiceBackend]:
        backends: list[ServiceBackend] = []
        left = SLICES_BYTES_MAX
        snapshot = self._reader.snapshot(tenant, (ENDPOINT_SLICES,))
        for entry in snapshot.labelled(
            ENDPOINT_SLICES, namespace, lambda labels: labels.get(SERVICE_NAME) == name
        ):
            left -= entry.size
            if left < 0 and backends:
                break
            endpoint_slice = entry.object
            number = _number(endpoint_slice.get("ports") or (), port_name)
            if number is not None:
                backends += _ready(endpoint_slice, namespace, number)
        return backends


def _resolve(host: str) -> tuple[Address, ...]:
    """Runs in a thread. Returns no addresses for an unknown name."""
    texts = host_names.look_up(host)
    return tuple(address for text in texts if (address := destinations.parse(text)) is not None)


def _port(spec: Object, port: int) -> Object | None:
    return next((each for each in spec.get("ports") or () if each.get("port") == port), None)


def _number(ports: Sequence[Object], name: str) -> int | None:
    return next((each.get("port") for each in ports if (each.get("name") or "") == name), None)


def _ready(endpoint_slice: Object, namespace: str, port: int) -> Iterator[ServiceBackend]:
    for endpoint in endpoint_slice.get("endpoints") or ():
        if not objects.get(endpoint, "conditions", "ready", default=True):
            continue
        ref = endpoint.get("targetRef") or {}
        is_pod = ref.get("kind") == "Pod" and ref.get("namespace", namespace) == namespace
        pod, uid = (str(ref.get("name", "")), str(ref.get("uid", ""))) if is_pod else ("", "")
        for text in endpoint.get("addresses") or ():
            if (address := destinations.parse(text)) is not None:
                yield ServiceBackend(address, port, pod, uid)
