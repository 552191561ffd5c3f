"""Tenants with pods that come and go, metered as the agent does it, against the node's own counters.

The sum over tenants is compared with what veths and the cgroup of all tenants have counted. Between two readings
pods start, use CPU time and end, tenants' cgroups go and come back, and the meter is started again from its file.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from alcove.agent.cgroups import CgroupLimits, Cgroups
from alcove.agent.ingress.traffic import RelayedBytes
from alcove.agent.metering import charges as files
from alcove.agent.metering.charges import NodeCharges
from alcove.agent.metering.tenant_meter import MeterSources, NetworkReading, TenantMeter
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.api.usage import UsageAmounts
from alcove.client.keys import HOME
from alcove.dataplane.namespaces import inside
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, LabNode, NamespacePod
from alcove.testing.probes import connect, tcp_server, udp_socket

TENANTS = 4
ROUNDS = 6
FIRST_VNI = 500
ETHERNET_BYTES = 14
BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"
SPEC = {"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}]}


class MeteredLab:
    """A node whose tenants are metered as the agent does it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.node, self.far = lab, lab.nodes[0], lab.nodes[1]
        self.cgroups = Cgroups.of_machine()
        self.top = f"/alcove-bench-{os.getpid()}"
        self.file = folder / "usage.json"
        self.pods: list[NamespacePod] = []
        networks = [self._network(number) for number in range(TENANTS)]
        apply_networks(lab, *networks)
        self.cgroups.ensure(self.top, CgroupLimits())
        self.start()
        # A new charges charges nothing that was there before it.
        asyncio.run(self.meter.read())

    def _network(self, number: int) -> LabNetwork:
        network = LabNetwork(FIRST_VNI + number, pods=[])
        for host, node in ((11, self.node), (12, self.node), (13, self.far)):
            pod = node.add_pod(f"m{number}-{host}", network.vni, f"10.0.1.{host}/24")
            network.pods.append(pod)
            self.pods.append(pod)
        return network

    def start(self) -> None:
        sources = MeterSources(
            cgroups=self.cgroups,
            tenant_group=lambda key: f"{self.top}/{key.tenant}",
            networks=self._networks,
            volumes=self._volumes,
            ingress=self._ingress,
        )
        self.meter = TenantMeter(NodeCharges.open(self.file, files.boot_id()), sources)

    async def _networks(self) -> Iterable[NetworkReading]:
        return [
            NetworkReading(f"t{each.vni - FIRST_VNI}", f"{each.vni}/{each.table}", each.bytes)
            for each in self.node.plane.meters.read()
        ]

    async def _volumes(self) -> Mapping[str, int]:
        return {}

    def _ingress(self) -> Mapping[str, RelayedBytes]:
        return {}

    def read(self) -> None:
        asyncio.run(self.meter.read())
        files.save(self.file, self.meter.charges.encoded())

    def charged(self) -> UsageAmounts:
        total = UsageAmounts()
        for tenants in self.meter.charges.state.hours.values():
            for amounts in tenants.values():
                total.add(amounts)
        return total

    def run_pod(self, tenant: str, number: int, seconds: float) -> None:
        """A pod that uses so much CPU time and ends; its tenant's cgroup ends with it, as with its last pod."""
        key = PodKey(HOME, TenantId(tenant), "bench", f"p{number}", f"00000000-0000-0000-0000-{number:012}")
        group = f"{self.top}/{tenant}/{key.directory_name}"
        self.cgroups.ensure(group, CgroupLimits())
        self.meter.pod_started(key, SPEC)
        entries = self.cgroups.make_leaf(f"{group}/c")

        def enter() -> None:
            for entry in entries:
                entry.write_text(str(os.getpid()))

        subprocess.run([sys.executable, "-S", "-c", BURN.format(seconds)], preexec_fn=enter, check=True)
        self.meter.pod_ended(key)
        self.cgroups.remove(f"{self.top}/{tenant}")

    def send(self, choice: random.Random) -> None:
        """Streams and datagrams of all sizes, on the node and to another one."""
        for number in range(TENANTS):
            client, near, far = self.pods[3 * number : 3 * number + 3]
            server = choice.choice((near, far))
            with tcp_server(server.namespace, server.address, 80) as listener:
                stream = connect(client.namespace, server.address, 80)
                assert stream is not None
                accepted, _ = listener.accept()
                with stream, accepted:
                    for _ in range(choice.randrange(1, 20)):
                        size = choice.randrange(1, 200_000)
                        stream.sendall(bytes(size))
                        while size:
                            size -= len(accepted.recv(size))
            with udp_socket(client.namespace, client.address) as sender:
                for _ in range(choice.randrange(1, 200)):
                    sender.sendto(bytes(choice.randrange(0, 1400)), (server.address, 9))


def carried(node: LabNode) -> int:
    """Bytes of IP packets that the node's pods have sent, as their veths count them."""
    with inside(node.namespace):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
    counts = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    links = [counts[pod.veth.name] for pod in node.pods]
    return sum(int(bytes_) - ETHERNET_BYTES * int(packets) for bytes_, packets, *_ in links)


def error_percent(seed: int) -> float:
    """How much the tenants of a random mix are charged with more or less than the node's counters say: bytes or CPU time, the larger."""
    choice = random.Random(seed)
    with Lab(2) as lab, TemporaryDirectory() as folder:
        metered = MeteredLab(lab, Path(folder))
        bytes_before, cpu_before = carried(metered.node), metered.cgroups.usage(metered.top).cpu_nanoseconds
        try:
            for turn in range(ROUNDS):
                for number in range(TENANTS):
                    metered.run_pod(f"t{number}", TENANTS * turn + number, choice.uniform(0.01, 0.15))
                metered.send(choice)
                metered.read()
                if turn % 2:
                    metered.start()
            charged = metered.charged()
            cpu = metered.cgroups.usage(metered.top).cpu_nanoseconds - cpu_before
        finally:
            metered.cgroups.remove(metered.top)
        sent = carried(metered.node) - bytes_before
    errors = (
        abs(charged.network_out_bytes + charged.world_out_bytes - sent) / sent,
        abs(charged.cpu_used_nanoseconds - cpu) / cpu,
    )
    return 100 * max(errors)
