"""A network's names, kept up to date change by change.

The zone is a function of the services, slices and pods last put into it, whatever the order. A change is
seen by the very next question: readers compare `version`.
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
"""The records of a name by type; empty for a name that only has names below it."""

_EMPTY: RecordSets = {}
_Unit = tuple[str, ObjectId]
"""What records are replaced together: `service` or `pod`, and its id."""


def aliases_of(network: str) -> dict[ObjectId, ObjectId]:
    """Names that pods expect, and the network's own service behind each."""
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
        self._again: Counter[DnsRecord] = Counter()
        """How many more units have a record than the one that put it there."""
        self._below: Counter[Name] = Counter()
        """How many names with records are below a name."""
        self._replace(("zone", ObjectId("", "")), apex_records(self.domain, self._server))

    # Changes

    def set_prefixes(self, prefixes: Iterable[Prefix]) -> None:
        """The network's own addresses: nobody else is asked for names of these."""
        self._prefixes = tuple(prefixes)
        self.version += 1

    def put_service(self, service: DnsService) -> None:
        if self._services.get(service.id) != service:
            self._services[service.id] = service
            self._service_changed(service.id)

    def drop_service(self, service: ObjectId) -> None:
        if self._services.pop(service, None) is not None:
            self._service_changed(service)

    def put_slice(self, part: EndpointSlice) -> None:
        if self._slices.get(part.id) == part:
            return
        self.drop_slice(part.id)
        self._slices[part.id] = part
        service = ObjectId(part.id.namespace, part.service)
        self._slices_of.setdefault(service, set()).add(part.id)
        self._service_changed(service)

    def drop_slice(self, part: ObjectId) -> None:
        dropped = self._slices.pop(part, None)
        if dropped is None:
            return
        service = ObjectId(part.namespace, dropped.service)
        remaining = self._slices_of[service]
        remaining.discard(part)
        if not remaining:
            del self._slices_of[service]
        self._service_changed(service)

    def put_pod(self, pod: DnsPod) -> None:
        self._replace(("pod", pod.id), pod_records(self.domain, pod))

    def drop_pod(self, pod: ObjectId) -> None:
        self._replace(("pod", pod), frozenset())

    # Questions

    def find(self, name: Name) -> RecordSets | None:
        """The name's records by type; empty if it has none but is there; None: no such name."""
        found = self._names.get(name)
        if found is not None:
            return found
        return _EMPTY if self._below[name] or name == self.domain else None

    def apex_of(self, name: Name) -> Name | None:
        """The zone a name belongs to, or would; None: others may know about it.

        Reverse names of private addresses are ours, whoever has them: what the node's own resolver knows
        about the machines around it is not for tenants.
        """
        if is_within(name, self.domain):
            return self.domain
        for reverse in (IPV4_REVERSE, IPV6_REVERSE):
            if is_within(name, reverse):
                address = address_of(name)
                if address is None:
                    return reverse if name in self._below else None
                own = any(
                    address.version == prefix.version and address in prefix for prefix in self._prefixes
                )
                return reverse if own or address.is_private or name in self._names else None
        return None

    def soa(self) -> bytes:
        numbers = (_REFRESH_SECONDS, _RETRY_SECONDS, _EXPIRE_SECONDS, NEGATIVE_SECONDS)
        return self._server + self._admin + pack(">5I", self.version % 2**_SERIAL_BITS, *numbers)

    def __len__(self) -> int:
        """How many names have records."""
        return len(self._names)

    # Keeping

    def _service_changed(self, service: ObjectId) -> None:
        self._publish(service)
        alias = self._alias_of.get(service)
        if alias is not None:
            self._publish(alias)

    def _publish(self, published: ObjectId) -> None:
        """A network's own service comes before one that only has the name its alias wants."""
        candidates = (self._source_of.get(published, published), published)
        source = next((each for each in candidates if each in self._services), None)
        records: frozenset[DnsRecord] = frozenset()
        if source is not None:
            slices = [self._slices[each] for each in sorted(self._slices_of.get(source, ()))]
            records = service_records(self.domain, published, self._services[source], slices)
        self._replace(("service", published), records)

    def _replace(self, unit: _Unit, records: frozenset[DnsRecord]) -> None:
        before = self._units.get(unit, frozenset())
        if before == records:
            return
        if records:
            self._units[unit] = records
        else:
            del self._units[unit]
        changed: dict[tuple[Name, int], set[DnsRecord]] = {}
        for record in before - records:
            if self._again[record]:
                self._again[record] -= 1
                if not self._again[record]:
                    del self._again[record]
            else:
                self._set_of(record, changed).discard(record)
        for record in records - before:
            here = self._set_of(record, changed)
            if record in here:
                self._again[record] += 1
            else:
                here.add(record)
        for (name, kind), now in changed.items():
            self._store(name, kind, tuple(sorted(now, key=_data)))
        self.version += 1

    def _set_of(self, record: DnsRecord, changed: dict[tuple[Name, int], set[DnsRecord]]) -> set[DnsRecord]:
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
        """Every ancestor of a name exists as long as the name does."""
        while name != ROOT:
            name = parent(name)
            self._below[name] += change
            if not self._below[name]:
                del self._below[name]


def _data(record: DnsRecord) -> bytes:
    return record.data
