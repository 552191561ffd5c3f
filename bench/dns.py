"""Measures the DNS server of a node that serves a thousand networks.

    python -m bench.dns [--quick] [--networks 1000] [--json FILE]

The server runs in a process of its own on one core, the load comes from this one on another. Every network
has its own sockets (UDP and TCP), services and pods; the questions are those of ordinary pods: names that
exist, types that do not, and what search lists make of names outside. The rounds of different loads take
turns; medians count.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, ip_network
from pathlib import Path

import uvloop
from dnslib import EDNS0, QTYPE, DNSHeader, DNSQuestion, DNSRecord

from alcove.api.ids import TenantId
from alcove.dns.model import DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, NetworkId, ObjectId
from alcove.dns.server import DnsServer, bind
from alcove.dns.zone import DnsZone

Figures = dict[str, float]
LEAST = {"dns_per_s": 15_000.0}
MOST = {"dns_p99_ms_at_5000": 2.0, "rss_per_network_kb": 100.0}

PORT = 15_353
FIRST_ADDRESS = IPv4Address("127.53.0.1")
SERVICES, PODS = 10, 20
WINDOW = 64
RATE = 5_000
ANSWER_SECONDS_MAX = 1.0


def address_of(number: int) -> str:
    return str(FIRST_ADDRESS + number)


# The server's process


def zone_of(number: int) -> DnsZone:
    zone = DnsZone(NetworkId(TenantId(f"t{number}"), "default"), [ip_network("10.0.0.0/8")])
    first = IPv4Address("10.96.0.10")
    for each in range(SERVICES):
        ports = (DnsPort("http", "TCP", 80),)
        zone.put_service(DnsService(ObjectId("default", f"s{each}"), (first + each,), ports))
    zone.put_service(DnsService(ObjectId("default", "db")))
    endpoints = tuple(DnsEndpoint((IPv4Address("10.0.0.1") + each,), f"db-{each}") for each in range(3))
    zone.put_slice(EndpointSlice(ObjectId("default", "db-x"), "db", (DnsPort("db", "TCP", 5432),), endpoints))
    for each in range(PODS):
        zone.put_pod(DnsPod(ObjectId("default", f"p{each}"), (IPv4Address("10.0.1.0") + each,)))
    return zone


def rss_kb() -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


async def serve(networks: int) -> None:
    """Answers until its input ends; says on its output when it is ready, with the time it took to get there."""
    loop = asyncio.get_running_loop()
    async with DnsServer() as server:
        await server.serve(zone_of(0), bind([address_of(0)], PORT), way_out=False)
        started, before = time.perf_counter(), rss_kb()
        for number in range(1, networks):
            await server.serve(zone_of(number), bind([address_of(number)], PORT), way_out=False)
        taken = time.perf_counter() - started
        print(json.dumps({"rss_before_kb": before, "seconds": taken}), flush=True)
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()


@contextmanager
def server_process(networks: int, core: int) -> Iterator[tuple[int, Figures]]:
    command = [sys.executable, "-m", "bench.dns", "--serve", "--networks", str(networks), "--core", str(core)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        output = process.stdout.readline()
        if not output:
            raise SystemExit("the server did not start")
        yield process.pid, json.loads(output)
    finally:
        process.stdin.close()
        process.wait(10)


# The load


def questions() -> list[bytes]:
    """What pods ask, without the id: seven names that exist, two types that do not, one name that does not."""
    kinds = [(f"s{each}.default.svc.cluster.local", QTYPE.A) for each in range(6)]
    kinds += [("db.default.svc.cluster.local", QTYPE.A), ("s1.default.svc.cluster.local", QTYPE.AAAA)]
    kinds += [
        ("s2.default.svc.cluster.local", QTYPE.AAAA),
        ("www.example.org.default.svc.cluster.local", QTYPE.A),
    ]
    packets = []
    for at, (name, kind) in enumerate(kinds):
        record = DNSRecord(DNSHeader(id=0, bitmap=0x0100), questions=[DNSQuestion(name, kind)])
        if at % 2:
            record.add_ar(EDNS0(udp_len=1_232))
        packets.append(bytes(record.pack())[2:])
    return packets


class Load:
    def __init__(self, networks: int) -> None:
        self._peers = [(address_of(number), PORT) for number in range(networks)]
        self._packets = questions()
        self._random = random.Random(7)
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._sock.settimeout(ANSWER_SECONDS_MAX)
        self.lost = 0

    def _some(self) -> tuple[bytes, tuple[str, int]]:
        return self._random.choice(self._packets), self._random.choice(self._peers)

    def everything_once(self) -> None:
        """Every question to every network: what they remember of it counts as their memory."""
        waiting = 0
        for peer in self._peers:
            for packet in self._packets:
                self._sock.sendto(b"\0\0" + packet, peer)
                waiting += 1
            while waiting:
                self._sock.recv(4_096)
                waiting -= 1

    def as_fast_as_it_goes(self, seconds: float) -> float:
        """Answers per second with a window of questions always under way."""
        plan = [self._some() for _ in range(4_096)]
        send, receive = self._sock.sendto, self._sock.recv
        answered = at = 0
        for _ in range(WINDOW):
            send(b"\0\1" + plan[at][0], plan[at][1])
            at += 1
        started = time.perf_counter()
        end = started + seconds
        while time.perf_counter() < end:
            for _ in range(WINDOW):
                try:
                    receive(4_096)
                    answered += 1
                except TimeoutError:
                    self.lost += 1
                packet, peer = plan[at % 4_096]
                at += 1
                send(b"\0\1" + packet, peer)
        taken = time.perf_counter() - started
        for _ in range(WINDOW):
            receive(4_096)
        return answered / taken

    def at_rate(self, seconds: float) -> list[float]:
        """Latencies in ms of questions sent at a steady rate, whether or not earlier ones are answered."""
        sock = self._sock
        sock.setblocking(False)
        count = int(seconds * RATE)
        sent = [0.0] * count
        latencies: list[float] = []
        started = time.perf_counter()
        number = 0
        while len(latencies) < count:
            now = time.perf_counter()
            if number < count and now >= started + number / RATE:
                packet, peer = self._some()
                sent[number] = now
                sock.sendto((number % 65_536).to_bytes(2, "big") + packet, peer)
                number += 1
            try:
                reply = sock.recv(4_096)
            except BlockingIOError:
                if now > started + seconds + ANSWER_SECONDS_MAX:
                    break
                continue
            latencies.append((time.perf_counter() - sent[_number(reply, number)]) * 1e3)
        self.lost += count - len(latencies)
        sock.settimeout(ANSWER_SECONDS_MAX)
        return latencies


def _number(reply: bytes, latest: int) -> int:
    """Which question a reply answers: the latest one with its id."""
    short = int.from_bytes(reply[:2], "big")
    return latest - 1 - (latest - 1 - short) % 65_536


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_of_kb(pid: int) -> int:
    [line] = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    return int(line.split()[1])


def measure(networks: int, rounds: int, seconds: float) -> Figures:
    cores = sorted(os.sched_getaffinity(0))
    with server_process(networks, cores[0]) as (pid, started):
        os.sched_setaffinity(0, {cores[-1]})
        load = Load(networks)
        load.everything_once()
        figures: Figures = {
            "networks": networks,
            "rss_per_network_kb": (rss_of_kb(pid) - started["rss_before_kb"]) / (networks - 1),
            "add_network_ms": started["seconds"] * 1e3 / (networks - 1),
        }
        rates, cpu_us, p50, p99 = list[float](), list[float](), list[float](), list[float]()
        for _ in range(rounds):
            before = cpu_seconds(pid)
            rates.append(load.as_fast_as_it_goes(seconds))
            cpu_us.append((cpu_seconds(pid) - before) * 1e6 / (rates[-1] * seconds))
            latencies = load.at_rate(seconds)
            p50.append(percentile(latencies, 0.5))
            p99.append(percentile(latencies, 0.99))
    figures["dns_per_s"] = statistics.median(rates)
    figures["dns_cpu_us"] = statistics.median(cpu_us)
    figures["dns_p50_ms_at_5000"] = statistics.median(p50)
    figures["dns_p99_ms_at_5000"] = statistics.median(p99)
    figures["dns_lost"] = load.lost
    return figures


def show(figures: Figures) -> None:
    for name, value in figures.items():
        goal = (
            f"at least {LEAST[name]:g}" if name in LEAST else f"below {MOST[name]:g}" if name in MOST else ""
        )
        print(f"{name:24}{value:14,.3f}  {goal}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="within a minute")
    parser.add_argument("--networks", type=int, default=1_000)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        os.sched_setaffinity(0, {options.core})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(options.networks))
        return
    figures = measure(
        options.networks, rounds=5 if options.quick else 9, seconds=2.0 if options.quick else 5.0
    )
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
