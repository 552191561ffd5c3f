"""The metrics of `/metrics`, in Prometheus' format, with the names that Kubernetes uses where it has them.

Counting is a few operations on plain integers, on the event loop; Prometheus' types are created only for a
scrape. The number of series is bounded, whatever kinds and tenants clients use.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from alcove.api.ids import GroupResource, TenantId
from alcove.apiserver.audit import AuditLog
from alcove.apiserver.flow import FlowController
from alcove.component.histogram import Histogram

REQUEST_SERIES_MAX = 512
TENANTS_KEPT = 1_000
TENANTS_SHOWN = 20

REQUEST_BUCKETS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
COMMIT_BUCKETS = (0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
BATCH_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
WAIT_BUCKETS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)

_VERBS = {"create": "POST", "update": "PUT"}
_READ_ONLY = frozenset({"get", "list", "watch"})


class Inflight:
    """Requests in flight."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class RequestKey(Struct, frozen=True):
    """The labels that a request is counted under."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    """`resource`, `namespace` or `cluster`."""


class RequestSeries:
    """Requests with equal labels. Call `begin` and `finish` once for each request."""

    __slots__ = ("_inflight", "codes", "durations")

    def __init__(self, inflight: Inflight) -> None:
        self._inflight = inflight
        self.codes: Counter[int] = Counter()
        self.durations = Histogram(REQUEST_BUCKETS)

    def count(self, code: int, seconds: float) -> None:
        """Counts a request that has begun and finished already."""
        self.codes[code] += 1
        self.durations.observe(seconds)

    def begin(self) -> None:
        self._inflight.now += 1

    def finish(self, code: int, seconds: float | None) -> None:
        """`seconds` is None for a watch, which has no meaningful duration."""
        self._inflight.now -= 1
        self.codes[code] += 1
        if seconds is not None:
            self.durations.observe(seconds)


class TenantUsage:
    """Requests per tenant: exact for the busiest tenants, dropped for idle ones."""

    def __init__(self) -> None:
        self.requests: Counter[TenantId] = Counter()
        self.refused: Counter[tuple[TenantId, str]] = Counter()
        """Requests that a limit of their tenant has refused, by the limit."""

    def count(self, tenant: TenantId) -> None:
        self.requests[tenant] += 1
        if len(self.requests) > 2 * TENANTS_KEPT:
            self.requests = Counter(dict(self.requests.most_common(TENANTS_KEPT)))

    def count_refused(self, tenant: TenantId, limit: str) -> None:
        """`limit` is one of a few words, of which no client chooses any."""
        self.refused[tenant, limit] += 1
        if len(self.refused) > 2 * TENANTS_KEPT:
            self.refused = Counter(dict(self.refused.most_common(TENANTS_KEPT)))

    def top(self, count: int) -> list[tuple[TenantId, int]]:
        return self.requests.most_common(count)


Labelled = Iterable[tuple[Sequence[str], float]]
"""Values with their labels."""


class MetricSource(Struct, frozen=True):
    """A metric whose value is read from its owner at each scrape."""

    name: str
    help: str
    read: Callable[[], Labelled]
    labels: tuple[str, ...] = ()
    is_counter: bool = False

    def family(self) -> Metric:
        kind = CounterMetricFamily if self.is_counter else GaugeMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in self.read():
            family.add_metric(labels, value)
        return family


class ApiServerMetrics(Collector):
    """Everything counted by one server."""

    def __init__(self) -> None:
        self._requests: dict[RequestKey, RequestSeries] = {}
        self._inflight = {"readOnly": Inflight(), "mutating": Inflight()}
        self._sources: list[MetricSource] = []
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.tenants = TenantUsage()
        self.watch_events: Counter[GroupResource] = Counter()
        """Events sent to watchers."""
        self.commit_seconds = Histogram(COMMIT_BUCKETS)
        self.commit_transactions = Histogram(BATCH_BUCKETS)
        self.flow_wait_seconds = Histogram(WAIT_BUCKETS)
        self.gather: Callable[[], Awaitable[Iterable[Metric]]] = self._gather_own
        """The metrics that `render` shows: this process' own, or those of all workers of this server."""

    def requests(self, request_key: RequestKey) -> RequestSeries:
        """The series of a key. Beyond `REQUEST_SERIES_MAX`, new keys share one series per verb."""
        series = self._requests.get(request_key)
        if series is None:
            if len(self._requests) >= REQUEST_SERIES_MAX:
                request_key = RequestKey(request_key.verb, resource="other")
            inflight = self._inflight["readOnly" if request_key.verb in _READ_ONLY else "mutating"]
            series = self._requests.setdefault(request_key, RequestSeries(inflight))
        return series

    def committed(self, seconds: float, transactions: int) -> None:
        """For `SqliteStore.open(observe=…)`."""
        self.commit_seconds.observe(seconds)
        self.commit_transactions.observe(transactions)

    def add(self, source: MetricSource) -> None:
        self._sources.append(source)

    def add_flow(self, flow: FlowController, rejected_in_levels: Callable[[], int] = lambda: 0) -> None:
        """Adds `flow`'s metrics, and the number of requests that a priority level of their own tenant rejected;
        waits are observed by `FlowController(on_wait=metrics.flow_wait_seconds.observe)`."""
        prefix = "apiserver_flowcontrol"
        self.add(_gauge(f"{prefix}_current_executing_seats", "Seats in use.", lambda: flow.in_use))
        self.add(_gauge(f"{prefix}_current_inqueue_requests", "Requests waiting.", lambda: flow.waiting))

        def rejected() -> Labelled:
            return [
                (("queue-full",), flow.rejected_full),
                (("time-out",), flow.rejected_late),
                (("priority-level",), rejected_in_levels()),
            ]

        help_text = "Requests rejected by flow control."
        self.add(
            MetricSource(f"{prefix}_rejected_requests", help_text, rejected, ("reason",), is_counter=True)
        )

    def add_audit(self, audit: AuditLog) -> None:
        self.add(_counter("apiserver_audit_event", "Audit events recorded.", lambda: audit.recorded))
        self.add(
            _counter("apiserver_audit_error", "Audit events dropped, not written.", lambda: audit.dropped)
        )

    def add_cache(self, counts: Callable[[], Mapping[GroupResource, int]]) -> None:
        """Adds the number of objects of each resource."""

        def objects() -> Labelled:
            return [((resource.group, resource.resource), count) for resource, count in counts().items()]

        name, help_text = "apiserver_resource_objects", "Objects of each resource, of all tenants."
        self.add(MetricSource(name, help_text, objects, ("group", "resource")))

    def add_watchers(self, count: Callable[[], int]) -> None:
        self.add(_gauge("apiserver_registered_watchers", "Watches being served.", count))

    def add_streams(self, count: Callable[[], int]) -> None:
        self.add(_gauge("alcove_apiserver_streams", "Streams of pods being relayed.", count))

    async def render(
        self, accept: str = "", further: Iterable[Metric] = (), *, is_whole: bool = True
    ) -> tuple[bytes, str]:
        """The metrics, and `further` ones, as text in the format that `accept` selects, and its content type. Only
        `further` ones unless `is_whole`."""
        encode, content_type = choose_encoder(accept)
        # Values are read on the loop; encoding thousands of lines would block it for too long, so a thread
        # does it.
        collected = _CollectedMetrics([*(await self.gather() if is_whole else ()), *further])
        return await asyncio.to_thread(encode, cast(CollectorRegistry, collected)), content_type

    def families(self) -> Iterable[Metric]:
        """All metrics of this process."""
        return self._registry.collect()

    async def _gather_own(self) -> Iterable[Metric]:
        return self.families()

    def collect(self) -> Iterator[Metric]:
        yield from self._request_families()
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being answered.", labels=["request_kind"]
        )
        for kind, cell in self._inflight.items():
            inflight.add_metric([kind], cell.now)
        yield inflight
        yield _labelled(
            CounterMetricFamily(
                "apiserver_watch_events", "Events sent to watchers.", labels=["group", "resource"]
            ),
            (((resource.group, resource.resource), count) for resource, count in self.watch_events.items()),
        )
        yield _labelled(
            CounterMetricFamily(
                "alcove_tenant_requests", "Requests of the busiest tenants.", labels=["tenant"]
            ),
            (((tenant,), count) for tenant, count in self.tenants.top(TENANTS_SHOWN)),
        )
        yield _labelled(
            CounterMetricFamily(
                "alcove_tenant_refused_requests",
                "Requests that limits of their tenants have refused: rate (429) and quota.",
                labels=["tenant", "limit"],
            ),
            self.tenants.refused.most_common(TENANTS_SHOWN),
        )
        yield _histogram("alcove_store_commit_duration_seconds", "Commits of the store.", self.commit_seconds)
        yield _histogram("alcove_store_commit_transactions", "Writes per commit.", self.commit_transactions)
        wait = "apiserver_flowcontrol_request_wait_duration_seconds"
        yield _histogram(wait, "Time that queued requests waited for seats.", self.flow_wait_seconds)
        for source in self._sources:
            yield source.family()

    def _request_families(self) -> Iterator[Metric]:
        labels = list(RequestKey.__struct_fields__)
        totals = CounterMetricFamily("apiserver_request", "Requests, by outcome.", labels=[*labels, "code"])
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "Duration of requests, without watches.", labels=labels
        )
        for request_key, series in self._requests.items():
            verb = _VERBS.get(request_key.verb, request_key.verb.upper())
            values = [verb, *(getattr(request_key, label) for label in labels[1:])]
            for code, count in series.codes.items():
                totals.add_metric([*values, str(code)], count)
            if any(series.durations.counts):
                durations.add_metric(values, series.durations.buckets(), series.durations.total)
        yield totals
        yield durations


def level_metrics(nominal_seats: Mapping[str, int]) -> list[Metric]:
    """The metrics of one tenant's priority levels."""
    family = GaugeMetricFamily(
        "apiserver_flowcontrol_nominal_limit_seats",
        "Seats of each priority level of the tenant.",
        labels=["priority_level"],
    )
    for level, seats in nominal_seats.items():
        family.add_metric([level], seats)
    return [family]


class _CollectedMetrics:
    """Metrics that are collected already, for an encoder that expects a registry."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _gauge(name: str, text: str, read: Callable[[], float]) -> MetricSource:
    return MetricSource(name, text, lambda: [((), read())])


def _counter(name: str, text: str, read: Callable[[], float]) -> MetricSource:
    return MetricSource(name, text, lambda: [((), read())], is_counter=True)


def _labelled(family: CounterMetricFamily, values: Labelled) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[])
    family.add_metric([], histogram.buckets(), histogram.total)
    return family
