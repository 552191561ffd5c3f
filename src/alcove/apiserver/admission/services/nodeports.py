"""Node ports: claimed by endpoints in ring0, whose names state the port. All tenants share one range.

The server of a dedicated tenant cannot claim in ring0: there a controller allocates the ports after the service is
created (`controllers/services/nodeports.py`), as it also completes the endpoints that are created here.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from alcove.api import node_ports, objects
from alcove.api.errors import Forbidden, InternalError, Invalid
from alcove.api.fields import invalid, too_many
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import NODE_PORT, OWNER_LABEL, PROVISIONED
from alcove.api.objects import Object
from alcove.api.pool_shares import PoolUse, limit_exceeded, share_exceeded
from alcove.api.resources import SERVICES, TENANTS, VPC_ENDPOINTS
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.admission.services.claims import Setter, created, released
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.store.base import WriteOp

PORTS_PER_SERVICE_MAX = 64
"""Node ports that one service may have: they are claimed in one transaction."""
PROBES_MAX = 32
"""Ports that are tried at random before all are tried in order."""
_HEALTH = "spec.healthCheckNodePort"


class NodePorts:
    def __init__(self, cache: Cache, clock: Callable[[], float], chance: random.Random) -> None:
        self._cache = cache
        self._clock = clock
        self._chance = chance

    def allocate(self, attributes: Attributes, setter: Setter) -> Counter[str]:
        """Set the node ports that the service lacks, and add the claims of new ones to its transaction.

        Returns the number of new claims by protocol. Raises Invalid and InternalError.
        """
        service = attributes.obj
        assert service is not None
        spec = service["spec"]
        if not types.has_node_ports(spec):
            return Counter()
        _check_count(attributes, spec)
        claims = _NewClaims(self, attributes)
        before = node_ports.held_ports(attributes.old["spec"]) if attributes.old is not None else set()
        ports = list(enumerate(spec.get("ports") or ()))
        for index, port in ports:
            if number := port.get("nodePort"):
                protocol = port.get("protocol") or "TCP"
                field = f"spec.ports[{index}].nodePort"
                claims.take(number, protocol, field, is_new=(number, protocol) not in before)
        if types.has_health_port(spec) and (number := spec.get("healthCheckNodePort")):
            claims.take(number, "TCP", _HEALTH, is_new=(number, "TCP") not in before)
        numbers = {port["port"]: port["nodePort"] for _, port in ports if port.get("nodePort")}
        for _, port in ports:
            if node_ports.needs_port(spec, port) and not port.get("nodePort"):
                number = claims.draw(port.get("protocol") or "TCP", numbers.get(port["port"], 0))
                setter.set(port, "nodePort", number)
                numbers[port["port"]] = number
        if types.has_health_port(spec) and not spec.get("healthCheckNodePort"):
            setter.set(spec, "healthCheckNodePort", claims.draw("TCP"))
        return claims.count

    def held(self, service: Object) -> Iterator[Key]:
        """The claims of the service's ports."""
        for number, protocol in node_ports.held_ports(service["spec"]):
            yield port_key(number, protocol)

    def release(self, key: Key, service: Object) -> list[WriteOp]:
        return released(self._cache.entry(key), partial(_is_own, service))

    def check_share(self, tenant: TenantId, name: str, count: Counter[str]) -> None:
        """Raises Forbidden if the tenant's services would hold more ports than its share."""
        used, total = self._used(tenant)
        limit = node_ports.limit_of(self._cache.get(SYSTEM, TENANTS, "", tenant))
        message = limit_exceeded(node_ports.RESOURCE, count.total(), used.total(), limit)
        for protocol, requested in count.items():
            use = PoolUse(node_ports.RESOURCE, used[protocol], len(node_ports.PORTS) - total[protocol])
            message = message or share_exceeded(use, requested)
        if message:
            raise Forbidden.of(SERVICES, name, message)

    def _used(self, tenant: TenantId) -> tuple[Counter[str], Counter[str]]:
        """Claimed ports by protocol: the tenant's, and everybody's."""
        used: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for entry in self._cache.entries(SYSTEM, VPC_ENDPOINTS, "", ("", "", node_ports.CLAIM_PREFIX)):
            claimed = node_ports.claimed_port(entry.key.name)
            if claimed is None:
                if not entry.key.name.startswith(node_ports.CLAIM_PREFIX):
                    break  # Entries are in the order of their names.
                continue
            total[claimed[1]] += 1
            if str(objects.get(entry.object, "spec", "pod", default="")).startswith(f"{tenant}/"):
                used[claimed[1]] += 1
        return used, total

    # Claims

    def entry(self, number: int, protocol: str) -> CacheEntry | None:
        return self._cache.entry(port_key(number, protocol))

    def candidates(self) -> Iterator[int]:
        ports = node_ports.PORTS
        for _ in range(PROBES_MAX):
            yield self._chance.choice(ports)
        yield from ports

    def claim(self, attributes: Attributes, number: int, protocol: str) -> WriteOp:
        service, key = attributes.obj, port_key(number, protocol)
        assert service is not None
        metadata = service["metadata"]
        owner = f"{attributes.tenant}/{metadata['namespace']}/{metadata['name']}"
        endpoint: Object = {
            "apiVersion": "mizar.com/v1",
            "kind": "Endpoint",
            "metadata": {"name": key.name, "labels": {OWNER_LABEL: metadata["uid"]}},
            "spec": {"type": NODE_PORT, "pod": owner, "status": PROVISIONED},
        }
        path = f"/apis/mizar.com/v1/tenants/{SYSTEM}/endpoints"
        return created(key, endpoint, path, self._clock())


class _NewClaims:
    """The ports that one write claims."""

    def __init__(self, pool: NodePorts, attributes: Attributes) -> None:
        self._pool = pool
        self._attributes = attributes
        self._taken: set[tuple[int, str]] = set()
        self.count: Counter[str] = Counter()

    def take(self, number: int, protocol: str, field: str, *, is_new: bool) -> None:
        """Claim a port that the service names. Raises Invalid if it is another's."""
        service = self._attributes.obj
        assert service is not None
        entry = self._pool.entry(number, protocol)
        is_taken = entry is not None and not _is_own(service, entry) and is_new
        is_valid = number in node_ports.PORTS or not is_new
        if is_taken or not is_valid or (number, protocol) in self._taken:
            ports = node_ports.PORTS
            message = (
                "provided port is already allocated"
                if is_valid
                else "provided port is not in the valid range. "
                f"The range of valid ports is {ports.start}-{ports.stop - 1}"
            )
            raise Invalid.of("", "Service", self._attributes.name, [invalid(field, number, message)])
        if entry is None:
            self._add(number, protocol)
        self._taken.add((number, protocol))

    def draw(self, protocol: str, preferred: int = 0) -> int:
        """Claim a free port: the preferred one if it is free. Raises InternalError."""
        if preferred and self._is_free(preferred, protocol):
            return self._add(preferred, protocol)
        for number in self._pool.candidates():
            if self._is_free(number, protocol):
                return self._add(number, protocol)
        raise InternalError("Internal error occurred: failed to allocate a nodePort: range is full")

    def _is_free(self, number: int, protocol: str) -> bool:
        return (number, protocol) not in self._taken and self._pool.entry(number, protocol) is None

    def _add(self, number: int, protocol: str) -> int:
        self._taken.add((number, protocol))
        self.count[protocol] += 1
        self._attributes.also.append(self._pool.claim(self._attributes, number, protocol))
        return number


def _check_count(attributes: Attributes, spec: Object) -> None:
    ports = [port for port in spec.get("ports") or () if node_ports.needs_port(spec, port)]
    if len(ports) > PORTS_PER_SERVICE_MAX and attributes.old is None:
        error = too_many("spec.ports", len(ports), PORTS_PER_SERVICE_MAX)
        raise Invalid.of("", "Service", attributes.name, [error])


def port_key(number: int, protocol: str) -> Key:
    return Key(VPC_ENDPOINTS, SYSTEM, "", node_ports.claim_name(number, protocol))


def _is_own(service: Object, entry: CacheEntry) -> bool:
    return bool(entry.labels.get(OWNER_LABEL) == service["metadata"]["uid"])
