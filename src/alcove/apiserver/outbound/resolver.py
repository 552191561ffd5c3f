"""From what a webhook's client configuration names to addresses: hosts by DNS, services by their endpoints.

Looking up a host takes a thread, which cannot be called back: each tenant has few at a time, so that one
tenant's slow name servers do not keep the others' names waiting.
"""

import asyncio
import random
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.outbound import addresses
from alcove.apiserver.outbound.addresses import Address
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError
from alcove.apiserver.reader import CacheReader

SERVICES = GroupResource("", "services")
SLICES = GroupResource("discovery.k8s.io", "endpointslices")
SERVICE_NAME = "kubernetes.io/service-name"

THREADS = 16
LOOKUPS_PER_TENANT = 2
KEPT_SECONDS = 30.0
KEPT_MAX = 1024


class ResolvedEndpoint(Struct, frozen=True):
    """Addresses to try, in order, and the port to try them at."""

    addresses: tuple[Address, ...]
    port: int


class OutboundResolver:
    def __init__(self, reader: CacheReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook-names")
        self._looking: dict[TenantId, int] = {}
        self._kept: dict[str, tuple[float, tuple[Address, ...]]] = {}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def host(self, tenant: TenantId, host: str, port: int) -> ResolvedEndpoint:
        """Where a URL's host is; without addresses if it is unknown. Raises WebhookError."""
        literal = addresses.parse(host)
        found = (literal,) if literal is not None else await self._look_up(tenant, host)
        return ResolvedEndpoint(found, port)

    async def _look_up(self, tenant: TenantId, host: str) -> tuple[Address, ...]:
        kept = self._kept.get(host)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        if self._looking.get(tenant, 0) >= LOOKUPS_PER_TENANT:
            raise TooManyCalls
        self._looking[tenant] = self._looking.get(tenant, 0) + 1
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, _resolve, host)
        # The thread is busy until it returns, whether or not anybody still waits for it.
        work.add_done_callback(lambda _work: self._looked(tenant))
        found = await asyncio.shield(work)
        if len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[host] = (self._clock() + KEPT_SECONDS, found)
        return found

    def _looked(self, tenant: TenantId) -> None:
        self._looking[tenant] -= 1
        if not self._looking[tenant]:
            del self._looking[tenant]

    async def service(self, tenant: TenantId, namespace: str, name: str, port: int) -> ResolvedEndpoint:
        """Where a service's ready endpoints are, in random order. Raises WebhookError."""
        service = self._reader.get(tenant, SERVICES, namespace, name)
        if service is None:
            raise WebhookError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return await self.host(tenant, spec.get("externalName", ""), port)
        wanted = _port(spec, port)
        if wanted is None:
            raise WebhookError(f'no service port {port} found for service "{name}"')
        return self._endpoints(tenant, namespace, name, wanted)

    def _endpoints(self, tenant: TenantId, namespace: str, name: str, wanted: Object) -> ResolvedEndpoint:
        by_port: dict[int, list[Address]] = {}
        for each in self._reader.list(tenant, SLICES, namespace):
            if objects.labels(each).get(SERVICE_NAME) == name:
                number = _number(each.get("ports") or (), wanted.get("name", ""))
                if number is not None:
                    by_port.setdefault(number, []).extend(_ready(each))
        if not any(by_port.values()):
            raise WebhookError(f'no endpoints available for service "{name}"')
        number, found = random.choice([(port, ready) for port, ready in by_port.items() if ready])
        return ResolvedEndpoint(tuple(random.sample(found, len(found))), number)


def _resolve(host: str) -> tuple[Address, ...]:
    """In a thread. A name that is unknown has no addresses."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return ()
    texts = dict.fromkeys(str(answer[4][0]) for answer in answers)
    return tuple(address for text in texts if (address := addresses.parse(text)) is not None)


def _port(spec: Object, port: int) -> Object | None:
    return next((each for each in spec.get("ports") or () if each.get("port") == port), None)


def _number(ports: Sequence[Object], name: str) -> int | None:
    return next((each.get("port") for each in ports if (each.get("name") or "") == name), None)


def _ready(endpoints: Object) -> list[Address]:
    texts = [
        text
        for endpoint in endpoints.get("endpoints") or ()
        if objects.get(endpoint, "conditions", "ready", default=True)
        for text in endpoint.get("addresses") or ()
    ]
    return [address for text in texts if (address := addresses.parse(text)) is not None]
