"""The meter of tenants, over cgroups that the test writes."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from alcove.agent.cgroups import Cgroups
from alcove.agent.ingress.traffic import RelayedBytes
from alcove.agent.metering.charges import ChargesState, NodeCharges
from alcove.agent.metering.tenant_meter import MeterSources, NetworkReading, TenantMeter
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.usage import UsageAmounts
from alcove.client.keys import HOME
from alcove.dataplane.meters import TrafficBytes

SPEC: Object = {"containers": [{"resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]}


class Bench:
    """A node with one tenant."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_800_000_000.0
        self.folder = folder
        self.readings: list[NetworkReading] = []
        self.volumes: dict[str, int] = {}
        self.relayed: dict[str, RelayedBytes] = {}
        self.charges = NodeCharges(ChargesState(boot="one"), "one")
        self.meter = self.start()

    def start(self) -> TenantMeter:
        sources = MeterSources(
            cgroups=Cgroups(f"cgroup2 {self.folder} cgroup2 rw 0 0\n"),
            tenant_group=lambda key: f"/{key.tenant}",
            networks=self._networks,
            volumes=self._volumes,
            ingress=lambda: self.relayed,
        )
        return TenantMeter(self.charges, sources, lambda: self.now)

    async def _networks(self) -> Iterable[NetworkReading]:
        return self.readings

    async def _volumes(self) -> dict[str, int]:
        return self.volumes

    def group(self, cpu_us: int, memory: int = 0) -> None:
        path = self.folder / "red"
        path.mkdir(exist_ok=True)
        (path / "cpu.stat").write_text(f"usage_usec {cpu_us}\n")
        (path / "memory.current").write_text(f"{memory}\n")
        (path / "memory.stat").write_text("inactive_file 0\n")

    def remove_group(self) -> None:
        for path in (self.folder / "red").iterdir():
            path.unlink()
        (self.folder / "red").rename(self.folder / f"gone-{self.now}")

    def read(self) -> UsageAmounts:
        asyncio.run(self.meter.read())
        total = UsageAmounts()
        for tenants in self.charges.state.hours.values():
            total.add(tenants.get("red", UsageAmounts()))
        return total


def pod(number: int) -> PodKey:
    return PodKey(HOME, TenantId("red"), "default", f"p{number}", f"00000000-0000-0000-0000-{number:012}")


def test_cpu_time_of_pods_between_two_readings_is_charged(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.group(cpu_us=0)
    bench.meter.pod_started(pod(1), SPEC)
    bench.group(cpu_us=700)
    bench.meter.pod_ended(pod(1))
    bench.remove_group()  # With the last pod of the tenant.
    bench.now += 10
    bench.group(cpu_us=5)
    bench.meter.pod_started(pod(2), SPEC)
    bench.now += 50
    used = bench.read()
    assert used.cpu_used_nanoseconds == 705_000
    assert (used.pods_started, used.pod_seconds) == (2, 51)
    assert used.cpu_requested_nanoseconds == 51 * 250 * 1_000_000
    assert used.memory_requested_byte_seconds == 51 * (64 << 20)


def test_memory_is_charged_as_sampled_for_the_time_since(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.group(0, memory=1_000)
    bench.meter.pod_started(pod(1), SPEC)
    bench.meter.sample_memory()
    bench.now += 10
    bench.group(0, memory=3_000)
    bench.meter.sample_memory()
    assert bench.read().memory_used_byte_seconds == 30_000


def test_traffic_goes_to_the_owner_also_before_it_is_known_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.readings = [NetworkReading("red", "7/31", TrafficBytes(100, 40, 5, 6, 7, 8, 9, 10))]
    used = bench.read()
    assert (used.network_out_bytes, used.network_in_bytes, used.load_balancer_in_bytes) == (100, 40, 10)
    # A restart: the objects that say whose the network is are not read yet.
    bench.meter = bench.start()
    bench.readings = [
        NetworkReading("", "7/31", TrafficBytes(150, 40)),
        NetworkReading("", "8/32", TrafficBytes(9)),
    ]
    assert bench.read().network_out_bytes == 150
    bench.readings = [
        NetworkReading("red", "7/31", TrafficBytes(160, 40)),
        NetworkReading("red", "8/32", TrafficBytes(9)),
    ]
    assert bench.read().network_out_bytes == 169


def test_volumes_and_ingresses_are_charged(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.volumes, bench.relayed = {"red": 1 << 20}, {"red": RelayedBytes(11, 22)}
    bench.now += 60
    used = bench.read()
    assert used.volume_byte_seconds == 60 << 20
    assert (used.ingress_in_bytes, used.ingress_out_bytes) == (11, 22)


def test_pods_that_are_gone_after_a_restart_are_not_charged_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in (1, 2):
        bench.meter.pod_started(pod(number), SPEC)
    bench.now += 60
    assert bench.read().pod_seconds == 120
    bench.meter.keep_pods([pod(2)])
    bench.now += 60
    assert bench.read().pod_seconds == 180
