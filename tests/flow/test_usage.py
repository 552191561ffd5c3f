"""What tenants have used: from the reports of nodes to the records of ring0 and each tenant's own view."""

import asyncio
import random
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.ingress.traffic import RelayedBytes
from alcove.agent.metering.charges import NodeCharges
from alcove.agent.metering.tenant_meter import MeterSources, NetworkReading, TenantMeter
from alcove.agent.metering.usage_reporter import UsageReporter
from alcove.api import meta
from alcove.api.objects import Object
from alcove.api.usage import UsageAmounts
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.pool import HttpPool
from alcove.client.transport import Transport
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.namespaces import NamespaceController
from alcove.controllers.tenants import TenantController
from alcove.controllers.usage import UsageController
from alcove.testing.controllers import RunningControllers
from alcove.testing.faults import FaultyTransport
from alcove.testing.server import Caller, LocalServer, wait_until

USAGES = "/apis/sight.alcove.io/v1alpha1{}/tenantusages"
REPORTS = "/apis/usage.alcove.io/v1alpha1/usagereports"
RECORDS = "/apis/usage.alcove.io/v1alpha1/usagerecords"
BEGIN = meta.parse_time("2026-11-16T14:20:00Z")
WHOLE = "?from=2026-11-16&to=2026-11-18&step="


class SetClock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class MeteredNode:
    """A node's charges and reporter, without a kernel behind them."""

    def __init__(self, server: LocalServer, name: str, folder: Path, clock: SetClock) -> None:
        self._caller, self._name = server.as_node(name), name
        self.path, self._clock = folder / f"{name}.json", clock
        self.start()

    def start(self) -> None:
        """As after a restart of the agent: with what is on disk."""
        sources = MeterSources(
            cgroups=Cgroups("cgroup2 /nonexistent cgroup2 rw 0 0\n"),
            tenant_group=lambda key: f"/{key.tenant}",
            networks=self._nothing,
            volumes=self._no_volumes,
            ingress=self._none,
        )
        self.meter = TenantMeter(NodeCharges.open(self.path, "boot"), sources, self._clock)
        self._is_started = False

    async def _nothing(self) -> Iterable[NetworkReading]:
        return ()

    async def _no_volumes(self) -> Mapping[str, int]:
        return {}

    def _none(self) -> Mapping[str, RelayedBytes]:
        return {}

    def use(self, tenant: str, seconds: int) -> None:
        self.meter.charges.hours.charge(
            tenant, UsageAmounts(pod_seconds=seconds), self._clock.now, self._clock.now
        )

    def report(self) -> None:
        async def run() -> None:
            transport = HttpPool(kubeconfig.load(self._caller.kubeconfig))
            try:
                client = Client(transport)
                await UsageReporter(self.meter, client, self._name, self.path, self._clock).read_and_report()
            finally:
                await transport.close()

        _run(run())


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("usage")) as running:
        for tenant in ("red", "blue"):
            running.make_tenant(tenant)
        yield running


def used(caller: Caller, tenant: str = "", step: str = "total") -> dict[str, list[int]]:
    """Pod seconds of each tenant that the caller sees."""
    answer = caller.get(USAGES.format(tenant) + WHOLE + step)
    assert answer.status == 200, answer.body
    found: dict[str, list[int]] = {}
    for item in answer.json["items"]:
        found.setdefault(item["metadata"]["tenant"], []).append(item["amounts"]["podSeconds"])
    return found


def all_used(server: LocalServer) -> dict[str, list[int]]:
    return used(server.system, "/tenants/all")


def report_of(server: LocalServer, name: str) -> Any:
    return server.system.get(f"{REPORTS}/{name}").json


def controllers(server: LocalServer, clock: SetClock, **options: Any) -> RunningControllers:
    chosen = ControllerOptions(**options)
    return RunningControllers(server.admin_kubeconfig, (UsageController,), chosen, clock=clock)


def test_usage_is_summed_up_once_whatever_is_restarted(server: LocalServer, tmp_path: Path) -> None:
    clock = SetClock(BEGIN)
    first, second = (MeteredNode(server, name, tmp_path, clock) for name in ("n1", "n2"))
    first.use("red", 10)
    first.use("blue", 5)
    second.use("red", 7)
    second.use("made-up", 99)
    for node in (first, second):
        node.report()
    with controllers(server, clock):
        # There is no record of tenants that do not exist.
        wait_until(lambda: all_used(server) == {"blue": [5], "red": [17]})
        # Each tenant sees its own; ring0 sees each.
        assert used(server.as_tenant("red")) == {"red": [17]}
        assert used(server.as_tenant("blue")) == {"blue": [5]}
        assert used(server.system, "/tenants/red") == {"red": [17]}
        # An agent is killed after it has saved, and one after it has reported.
        first.use("red", 3)
        first.report()
        first.start()
        first.report()
        assert report_of(server, "n1")["spec"]["hours"]["2026-11-16T14:00:00Z"]["red"] == {"podSeconds": 13}
        # More than an hour later the hour is settled: reporters are told, and leave it out.
        clock.now += 3600
        first.use("red", 100)
        first.report()
        wait_until(lambda: report_of(server, "n2")["status"]["settledThrough"] == "2026-11-16T14:00:00Z")
        wait_until(lambda: all_used(server)["red"] == [120])
    first.report()
    first.report()
    assert set(report_of(server, "n1")["spec"]["hours"]) == {"2026-11-16T15:00:00Z"}
    # Other controllers take over, which do not see the settled hour in any report.
    second.use("blue", 1)
    second.report()
    with controllers(server, clock):
        wait_until(lambda: all_used(server) == {"blue": [6], "red": [120]})
    assert used(server.system, "/tenants/all", "hour") == {"blue": [5, 1], "red": [20, 100]}
    # A node that has lost its disk goes on with what it has reported.
    first.path.unlink()
    first.start()
    first.use("red", 2)
    first.report()
    assert report_of(server, "n1")["spec"]["hours"]["2026-11-16T15:00:00Z"]["red"] == {"podSeconds": 102}
    # Records end with the retention.
    clock.now += 10 * 86400
    second.use("blue", 1)
    second.report()
    with controllers(server, clock, usage_retention_days=3):
        wait_until(lambda: not all_used(server))


def of_records(transport: FaultyTransport) -> int:
    """Requests for one record each."""
    return sum("/usagerecords" in each and "?" not in each for each in transport.requests)


def requests_beside(directory: Path, others: int) -> tuple[int, int]:
    """How many requests for records it takes when one more tenant, beside so many others with usage, uses something, and when
    it is deleted."""
    clock, transports = SetClock(BEGIN), list[FaultyTransport]()

    def through(inner: Transport) -> Transport:
        transports.append(FaultyTransport(inner, random.Random(0)))
        return transports[0]

    def is_summed_up(name: str, seconds: int) -> bool:
        clock.now += 1
        return all_used(home)[name] == [seconds]

    wanted = (TenantController, NamespaceController, UsageController)
    options = ControllerOptions(usage_interval_seconds=1)
    with (
        LocalServer(directory) as home,
        RunningControllers(home.admin_kubeconfig, wanted, options, clock=clock, through=through),
    ):
        node = MeteredNode(home, "n1", directory, clock)
        tenants = [f"t-{number}" for number in range(others)]
        for tenant in [*tenants, "green"]:
            assert home.system.post("/api/v1/tenants", {"metadata": {"name": tenant}}).status == 201
            node.use(tenant, 5)
        node.report()
        for tenant in [*tenants, "green"]:
            wait_until(partial(is_summed_up, tenant, 5))
        before = of_records(transports[0])
        node.use("green", 2)
        node.report()
        wait_until(partial(is_summed_up, "green", 7))
        used_by_one = of_records(transports[0]) - before
        clock.now = BEGIN + 86400  # It has no record of this day.
        node.use("green", 3)
        assert home.system.delete("/api/v1/tenants/green").status == 200
        wait_until(lambda: home.system.get("/api/v1/tenants/green").status == 404)
        wait_until(lambda: home.system.get(f"{RECORDS}/green.2026-11-17").status == 200)
        deleted = of_records(transports[0]) - before - used_by_one
        # What it has used is reported when it is gone.
        node.report()
        wait_until(partial(is_summed_up, "green", 10))
        return used_by_one, deleted


def test_records_of_tenants_that_used_nothing_are_not_read(tmp_path: Path) -> None:
    """Every deletion of a tenant read the records of all others."""
    assert requests_beside(tmp_path / "few", 2) == requests_beside(tmp_path / "many", 8) == (2, 1)


def test_a_deleted_tenant_that_has_used_nothing_has_no_record_when_its_day_is_over(tmp_path: Path) -> None:
    clock = SetClock(BEGIN)
    wanted, options = (
        (TenantController, NamespaceController, UsageController),
        ControllerOptions(usage_interval_seconds=1),
    )
    with (
        LocalServer(tmp_path) as home,
        RunningControllers(home.admin_kubeconfig, wanted, options, clock=clock),
    ):
        record, tenant = f"{RECORDS}/idle.2026-11-16", "/api/v1/tenants/idle"
        assert home.system.post("/api/v1/tenants", {"metadata": {"name": "idle"}}).status == 201
        assert home.system.delete(tenant).status == 200
        wait_until(lambda: home.system.get(tenant).status == 404)
        wait_until(lambda: home.system.get(record).status == 200)
        node = MeteredNode(home, "n1", tmp_path, clock)

        def is_gone() -> bool:
            clock.now += 3600
            node.report()
            return home.system.get(record).status == 404

        wait_until(is_gone)


def test_what_is_used_in_a_nodes_first_interval_is_charged(server: LocalServer, tmp_path: Path) -> None:
    """Counters were read for the first time after an interval, and what they had by then was not charged."""
    node = MeteredNode(server, "new", tmp_path, SetClock(BEGIN))
    assert node.meter.charges.is_new

    async def run() -> None:
        transport = HttpPool(kubeconfig.load(server.as_node("new").kubeconfig))
        reporter = UsageReporter(node.meter, Client(transport), "new", node.path)
        running = asyncio.create_task(reporter.run())
        async with asyncio.timeout(reporter.interval_seconds / 2):
            while node.meter.charges.is_new:  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await transport.close()

    _run(run())
    node.meter.charges.charge_counter("network", "red", (7,), ("network_out_bytes",), 0, 1)
    assert [each["red"].network_out_bytes for each in node.meter.charges.hours.hours.values()] == [7]


def test_nobody_but_ring0_writes_what_was_used(server: LocalServer, tmp_path: Path) -> None:
    MeteredNode(server, "n3", tmp_path, SetClock(BEGIN))
    red, node = server.as_tenant("red"), server.as_node("n3")
    record: Object = {"metadata": {"name": "red.2026-11-16"}, "spec": {"tenant": "red", "hours": {}}}
    report: Object = {"metadata": {"name": "n3"}, "spec": {"hours": {}}}
    for path, body in ((RECORDS, record), (REPORTS, report)):
        assert red.post(path, body).status == 404
        assert red.get(path).status == 404
        assert red.delete(f"{path}/{body['metadata']['name']}").status == 404
    assert red.post(USAGES.format(""), record).status == 405
    assert red.get(USAGES.format("/tenants/blue")).status == 403
    # A node reports for itself, and settles nothing.
    assert node.post(REPORTS, report).status == 201
    assert node.post(REPORTS, {**report, "metadata": {"name": "n4"}}).status == 403
    assert node.get(f"{REPORTS}/n1").status == 403
    assert node.post(RECORDS, record).status == 403
    status = {"status": {"settledThrough": "2026-11-16T14:00:00Z"}}
    assert node.patch(f"{REPORTS}/n3/status", status).status == 403
    bad = {"hours": {"2026-11-16T14:00:00Z": {"red": {"podSeconds": -5}}}}
    assert server.system.patch(f"{REPORTS}/n3", {"spec": bad}).status == 422


@pytest.mark.parametrize(
    "query", ["?step=year", "?from=yesterday", "?from=2026-11-16&to=2026-11-15", "?from=2000-01-01"]
)
def test_a_bad_time_is_refused(server: LocalServer, query: str) -> None:
    assert server.as_tenant("red").get(USAGES.format("") + query).status == 400
