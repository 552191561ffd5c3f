"""The zone of a network, updated incrementally.

The contents depend only on the current services, slices and pods, not on the order of updates. Every change
increments `version`, so that readers can drop cached replies before the next query.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from struct import pack

from alcove.dns.model import DnsPod, DnsService, EndpointSlice, NetworkId, ObjectId, Prefix
from alcove.dns.names import IPV4_REVERSE, IPV6_REVERSE, ROOT, Name, address_of, is_within, name_of, parent
from alcove.dns.records import DnsRecord, apex_records, pod_records, service_records

NEGATIVE_SECONDS = 5
_SERIAL_BITS = 32
_REFRESH_SECONDS, _RETRY_SECONDS, _EXPIRE_SECONDS = 7_200, 1_800, 86_400

RecordSets = Mapping[int, tuple[DnsRecord, ...]]
"""The records of a name by type; empty for a name that only has names below it (empty non-terminal)."""

_EMPTY: RecordSets = {}
_Unit = tuple[str, ObjectId]
"""The source of records that are replaced together: `service`, `pod` or `zone`, and its id."""


def aliases_of(network: str) -> dict[ObjectId, ObjectId]:
    """Well-known service names, and the service of the network that each one refers to."""
    return {
        ObjectId("default", "kubernetes"): ObjectId("default", f"kubernetes-{network}"),
        ObjectId("kube-system", "kube-dns"): ObjectId("kube-system", f"kube-dns-{network}"),
    }


class DnsZone:
    def __init__(
        self, network: NetworkId, prefixes: Iterable[Prefix] = (), domain: str = "cluster.local"
    ) -> None:
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
        self._units: dict[_Unit, frozenset[DnsRecord]] = {}
        self._names: dict[Name, dict[int, tuple[DnsRecord, ...]]] = {}
        self._duplicates: Counter[DnsRecord] = Counter()
        """The number of additional units that have the same record."""
        self._below: Counter[Name] = Counter()
        """The number of names with records below each name."""
        self._replace(("zone", ObjectId("", "")), apex_records(self.domain, self._server))

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
        self.drop_slice(endpoint_slice.id)
        self._slices[endpoint_slice.id] = endpoint_slice
        service = ObjectId(endpoint_slice.id.namespace, endpoint_slice.service)
        self._slices_of.setdefault(service, set()).add(endpoint_slice.id)
        self._service_changed(service)

    def drop_slice(self, slice_id: ObjectId) -> None:
        endpoint_slice = self._slices.pop(slice_id, None)
        if endpoint_slice is None:
            return
        service = ObjectId(slice_id.namespace, endpoint_slice.service)
        remaining = self._slices_of[service]
        remaining.discard(slice_id)
        if not remaining:
            del self._slices_of[service]
        self._service_changed(service)

    def put_pod(self, pod: DnsPod) -> None:
        self._replace(("pod", pod.id), pod_records(self.domain, pod))

    def drop_pod(self, pod: ObjectId) -> None:
        self._replace(("pod", pod), frozenset())

    # Queries

    def find(self, name: Name) -> RecordSets | None:
        """The name's records by type; empty if the name exists without records; None if it does not exist."""
        sets = self._names.get(name)
        if sets is not None:
            return sets
        return _EMPTY if self._below[name] or name == self.domain else None

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
                return reverse if is_in_network or address.is_private or name in self._names else None
        return None

    def soa(self) -> bytes:
        numbers = (_REFRESH_SECONDS, _RETRY_SECONDS, _EXPIRE_SECONDS, NEGATIVE_SECONDS)
        return self._server + self._admin + pack(">5I", self.version % 2**_SERIAL_BITS, *numbers)

    def __len__(self) -> int:
        """The number of names with records."""
        return len(self._names)

    # Updates

    def _service_changed(self, service: ObjectId) -> None:
        self._publish(service)
        alias = self._alias_of.get(service)
        if alias is not None:
            self._publish(alias)

    def _publish(self, published: ObjectId) -> None:
        """Updates the records of a published name. The network's aliased service takes precedence over one
        with that name."""
        candidates = (self._source_of.get(published, published), published)
        source = next((each for each in candidates if each in self._services), None)
        records: frozenset[DnsRecord] = frozenset()
        if source is not None:
            slices = [self._slices[each] for each in sorted(self._slices_of.get(source, ()))]
            records = service_records(self.domain, published, self._services[source], slices)
        self._replace(("service", published), records)

    def _replace(self, unit: _Unit, records: frozenset[DnsRecord]) -> None:
        previous = self._units.get(unit, frozenset())
        if previous == records:
            return
        if records:
            self._units[unit] = records
        else:
            del self._units[unit]
        changed: dict[tuple[Name, int], set[DnsRecord]] = {}
        for record in previous - records:
            if self._duplicates[record]:
                self._duplicates[record] -= 1
                if not self._duplicates[record]:
                    del self._duplicates[record]
            else:
                self._changed_set(record, changed).discard(record)
        for record in records - previous:
            records_of_name = self._changed_set(record, changed)
            if record in records_of_name:
                self._duplicates[record] += 1
            else:
                records_of_name.add(record)
        for (name, kind), current in changed.items():
            self._store(name, kind, tuple(sorted(current, key=_data)))
        self.version += 1

    def _changed_set(
        self, record: DnsRecord, changed: dict[tuple[Name, int], set[DnsRecord]]
    ) -> set[DnsRecord]:
        key = (record.name, record.type)
        if key not in changed:
            changed[key] = set(self._names.get(record.name, _EMPTY).get(record.type, ()))
        return changed[key]

    def _store(self, name: Name, kind: int, records: tuple[DnsRecord, ...]) -> None:
        sets = self._names.get(name)
        if sets is None:
            if not records:
                return
            sets = self._names[name] = {}
            self._count(name, 1)
        if records:
            sets[kind] = records
            return
        sets.pop(kind, None)
        if not sets:
            del self._names[name]
            self._count(name, -1)

    def _count(self, name: Name, change: int) -> None:
        """Updates the counts of all ancestors of a name, which exist as long as the name does."""
        while name != ROOT:
            name = parent(name)
            self._below[name] += change
            if not self._below[name]:
                del self._below[name]


def _data(record: DnsRecord) -> bytes:
    return record.data
