"""The zone of a network, updated incrementally.

The contents depend only on the current services, slices and pods, not on the order of updates, as long as they fit into
the tenant's share of the node. Every change increments `version`, so that readers can drop cached replies before the next
query.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from struct import pack

from alcove.dns.model import DnsPod, DnsService, EndpointSlice, NetworkId, ObjectId, Prefix
from alcove.dns.names import IPV4_REVERSE, IPV6_REVERSE, Name, address_of, is_within, name_of
from alcove.dns.record_budget import RecordBudget
from alcove.dns.records import DnsRecord, apex_records, pod_records, service_records
from alcove.dns.zone_parts import (
    EMPTY_PART,
    Change,
    PartChange,
    PartId,
    RecordSets,
    ZonePart,
    change_of,
    merged,
)

NEGATIVE_SECONDS = 5
INLINE_TARGETS_MAX = 256
"""Endpoints and ports of a service up to which its records are made on the event loop: some milliseconds."""
OWN_RECORDS_MAX = 64
"""Records of a service that every network has: they need no room in the tenant's share."""
_SERIAL_BITS = 32
_REFRESH_SECONDS, _RETRY_SECONDS, _EXPIRE_SECONDS = 7_200, 1_800, 86_400

_EMPTY: RecordSets = {}
RETRIED_AT_ONCE = 16
"""Parts that did not fit and are tried again in one pass."""


def aliases_of(network: str) -> dict[ObjectId, ObjectId]:
    """Well-known service names, and the service of the network that each one refers to."""
    return {
        ObjectId("default", "kubernetes"): ObjectId("default", f"kubernetes-{network}"),
        ObjectId("kube-system", "kube-dns"): ObjectId("kube-system", f"kube-dns-{network}"),
    }


class DnsZone:
    def __init__(
        self,
        network: NetworkId,
        prefixes: Iterable[Prefix] = (),
        domain: str = "cluster.local",
        budget: RecordBudget | None = None,
        later: Callable[[ObjectId], None] | None = None,
    ) -> None:
        """`budget` is the node's. `later` is called with a service whose records take long, for somebody to compute
        `changes` and put them into `replace`; None to make all records at once."""
        self.network = network
        self.domain = name_of(domain)
        self.version = 0
        self._prefixes = tuple(prefixes)
        self._server = name_of(f"kube-dns.kube-system.svc.{domain}")
        self._admin = name_of(f"hostmaster.{domain}")
        self._source_of = aliases_of(network.name)
        self._alias_of = {source: alias for alias, source in self._source_of.items()}
        self._services: dict[ObjectId, DnsService] = {}
        self._slices: dict[ObjectId, EndpointSlice] = {}
        self._slices_of: dict[ObjectId, set[ObjectId]] = {}
        self._budget = budget or RecordBudget()
        self._later = later
        self._parts: dict[PartId, ZonePart] = {}
        self._refused: dict[PartId, tuple[int, Callable[[], None]]] = {}
        """Parts that do not fit into the tenant's share: how many records each has, and how it is tried again."""
        self._index: dict[Name, PartId | dict[PartId, None]] = {}
        """The parts that have records of each name: most have one."""
        self._below: Counter[Name] = Counter()
        """The number of names with records below each name."""
        self._put(("zone", ObjectId("", "")), apex_records(self.domain, self._server))

    # Changes

    def set_prefixes(self, prefixes: Iterable[Prefix]) -> None:
        """The address ranges of the network, whose reverse names are never queried upstream."""
        self._prefixes = tuple(prefixes)
        self.version += 1

    def put_service(self, service: DnsService) -> None:
        if self._services.get(service.id) != service:
            self._services[service.id] = service
            self._service_changed(service.id)

    def drop_service(self, service: ObjectId) -> None:
        if self._services.pop(service, None) is not None:
            self._service_changed(service)

    def put_slice(self, endpoint_slice: EndpointSlice) -> None:
        if self._slices.get(endpoint_slice.id) == endpoint_slice:
            return
        before = self._forget_slice(endpoint_slice.id)
        self._slices[endpoint_slice.id] = endpoint_slice
        service = ObjectId(endpoint_slice.id.namespace, endpoint_slice.service)
        self._slices_of.setdefault(service, set()).add(endpoint_slice.id)
        if before is not None and before != service:
            self._service_changed(before)
        self._service_changed(service)

    def drop_slice(self, slice_id: ObjectId) -> None:
        service = self._forget_slice(slice_id)
        if service is not None:
            self._service_changed(service)

    def drop_slices_of(self, service: ObjectId) -> None:
        """Forgets the slices of a service that is about to change."""
        for slice_id in list(self._slices_of.get(service, ())):
            self._forget_slice(slice_id)

    def _forget_slice(self, slice_id: ObjectId) -> ObjectId | None:
        """Returns the service that had it."""
        endpoint_slice = self._slices.pop(slice_id, None)
        if endpoint_slice is None:
            return None
        service = ObjectId(slice_id.namespace, endpoint_slice.service)
        remaining = self._slices_of[service]
        remaining.discard(slice_id)
        if not remaining:
            del self._slices_of[service]
        return service

    def put_pod(self, pod: DnsPod) -> None:
        self._put(("pod", pod.id), pod_records(self.domain, pod), lambda: self.put_pod(pod))

    def drop_pod(self, pod: ObjectId) -> None:
        self._refused.pop(("pod", pod), None)
        self._put(("pod", pod), ())

    def has_headless(self, service: ObjectId) -> bool:
        """Whether the zone has names of the service's endpoints."""
        found = self._services.get(service)
        return found is not None and found.headless

    def close(self) -> None:
        """Gives back what the zone has of the tenant's share."""
        for part in self._parts.values():
            self._budget.replace(self.network.tenant, part.count, 0)
        self._parts.clear()
        self._index.clear()
        self._refused.clear()

    # Queries

    def find(self, name: Name) -> RecordSets | None:
        """The name's records by type; empty if the name exists without records; None if it does not exist."""
        found = self._index.get(name)
        if found is None:
            return _EMPTY if self._below[name] or name == self.domain else None
        if isinstance(found, dict):
            return merged(self._parts[each].names[name] for each in found)
        return self._parts[found].names[name]

    def apex_of(self, name: Name) -> Name | None:
        """The zone that is authoritative for the name; None if the name must be queried upstream.

        Reverse names of all private addresses belong to the zone, because tenants must not see the names that
        the node's resolver has for the machines around it.
        """
        if is_within(name, self.domain):
            return self.domain
        for reverse in (IPV4_REVERSE, IPV6_REVERSE):
            if is_within(name, reverse):
                address = address_of(name)
                if address is None:
                    return reverse if name in self._below else None
                is_in_network = any(
                    address.version == prefix.version and address in prefix for prefix in self._prefixes
                )
                return reverse if is_in_network or address.is_private or name in self._index else None
        return None

    def soa(self) -> bytes:
        numbers = (_REFRESH_SECONDS, _RETRY_SECONDS, _EXPIRE_SECONDS, NEGATIVE_SECONDS)
        return self._server + self._admin + pack(">5I", self.version % 2**_SERIAL_BITS, *numbers)

    def __len__(self) -> int:
        """The number of names with records."""
        return len(self._index)

    # Updates

    def _service_changed(self, service: ObjectId) -> None:
        if self._later is not None and self._targets(service) > INLINE_TARGETS_MAX:
            self._later(service)
            return
        for change in self.changes(service):
            self.replace(change())

    def _targets(self, service: ObjectId) -> int:
        """How many endpoints and ports have records of their own."""
        found = self._services.get(service)
        count = len(found.ports) if found is not None else 0
        if found is not None and found.headless:
            for each in self._slices_of.get(service, ()):
                count += len(self._slices[each].endpoints) * (1 + len(self._slices[each].ports))
        # Those that it had before are compared.
        return count + self._parts.get(("service", service), EMPTY_PART).count // 3

    def changes(self, service: ObjectId) -> list[Change]:
        """What the service's names are now, for any thread to compute: nothing that they read is changed."""
        alias = self._alias_of.get(service)
        return [self._change(each) for each in (service, alias) if each is not None]

    def _change(self, published: ObjectId) -> Change:
        """The change of a published name. The network's aliased service takes precedence over one with that name."""
        candidates = (self._source_of.get(published, published), published)
        source = next((each for each in candidates if each in self._services), None)
        part: PartId = ("service", published)
        before = self._parts.get(part, EMPTY_PART)
        if source is None:
            return lambda: change_of(part, before, ())
        service, domain = self._services[source], self.domain
        slices = [self._slices[each] for each in sorted(self._slices_of.get(source, ()))]
        return lambda: change_of(part, before, service_records(domain, published, service, slices))

    def _put(
        self, part: PartId, records: Iterable[DnsRecord], again: Callable[[], None] = lambda: None
    ) -> None:
        self.replace(change_of(part, self._parts.get(part, EMPTY_PART), records), again)

    def replace(self, change: PartChange | None, again: Callable[[], None] | None = None) -> None:
        """Carries out a change, unless its part was changed since it was computed: then another one comes. A part that
        does not fit into the tenant's share is empty; `again` tries it again, by default as a service."""
        if change is None or change.before is not self._parts.get(change.id, EMPTY_PART):
            return
        tenant, before, now = self.network.tenant, change.before.count, change.now.count
        kind, id_ = change.id
        self._refused.pop(change.id, None)
        is_own = kind == "zone" or id_ in self._source_of or id_ in self._alias_of
        if not (is_own and now <= OWN_RECORDS_MAX) and not self._budget.has_room(tenant, before, now):
            self._refused[change.id] = (now, again or (lambda: self._service_changed(id_)))
            change = change_of(change.id, change.before, ())
            if change is None:
                return
            now = 0
        self._budget.replace(tenant, before, now)
        if now:
            self._parts[change.id] = change.now
        else:
            del self._parts[change.id]
        for name in change.added:
            self._add_name(name, change.id)
        for name in change.removed:
            self._remove_name(name, change.id)
        for name, difference in change.below.items():
            self._below[name] += difference
            if not self._below[name]:
                del self._below[name]
        self.version += 1

    def retry_refused(self) -> None:
        """Tries again what did not fit into the tenant's share, if there is room now."""
        for part in list(islice(self._refused, RETRIED_AT_ONCE)):
            count, again = self._refused.pop(part)
            if self._budget.has_room(self.network.tenant, 0, count):
                again()
            else:
                self._refused[part] = (count, again)

    def refused_services(self) -> list[ObjectId]:
        """Those that have no names because they do not fit into the tenant's share."""
        return [id_ for kind, id_ in self._refused if kind == "service"]

    def _add_name(self, name: Name, part: PartId) -> None:
        found = self._index.get(name)
        if found is None:
            self._index[name] = part
        elif isinstance(found, dict):
            found[part] = None
        else:
            self._index[name] = {found: None, part: None}

    def _remove_name(self, name: Name, part: PartId) -> None:
        found = self._index[name]
        if not isinstance(found, dict):
            del self._index[name]
            return
        del found[part]
        if len(found) == 1:
            [self._index[name]] = found
