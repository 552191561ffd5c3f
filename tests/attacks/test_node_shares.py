"""A tenant that fills its shares of a node (service backends, NAT ports to a destination, TLS handshakes of its Ingress): another tenant's
services, way out and names work as before, also those that are new."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from ipaddress import IPv4Address

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from alcove.agent.ingress.certificates import RSA_BITS_MAX
from alcove.agent.network.map_shares import SERVICE_ENTRIES, TOO_MANY_SERVICES
from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.dataplane.model import DataplaneSettings
from alcove.dataplane.rulesets import DESTINATION_SHARE
from alcove.testing.abuse.handshakes import HandshakeFlood
from alcove.testing.attacks import ATTACKER, QUIET, SPARE_MS, TIMES_SLOWER_MAX, AttackedCluster
from alcove.testing.certificates import self_signed
from alcove.testing.claims import free_port
from alcove.testing.cluster import PODS, lacking
from alcove.testing.probes import connect, opened
from alcove.testing.quiet import QuietFigures, percentile, pod_namespace
from alcove.testing.server import Caller, wait_until

# Watches the clock.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
NETWORK = "/apis/arktos.futurewei.com/v1/networks/default"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
SECONDS = 4.0
WAIT_SECONDS = 60.0
WORLD = [f"203.0.113.{number}" for number in range(1, 9)]
"""Addresses of this machine as the nodes see the world."""
PAGE_SECONDS_MAX = 2.0
LONGEST_MS = 1_000.0
"""That one of a thousand questions may wait longer than before: other tests share this machine."""
SO_RCVBUFFORCE = 33


class Shares:
    """What the tests do as the two tenants, and what the quiet one notices."""

    def __init__(self, arena: AttackedCluster) -> None:
        self.arena = arena
        self.node = arena.cluster.nodes[0]
        uid = arena.quiet.caller.get(f"{PODS}/quiet").json["metadata"]["uid"]
        self.quiet_pod = _namespace(pod_namespace(arena.cluster, uid))
        self.attackers_pod = _namespace(arena.target.namespace)
        self.before = arena.quiet.measure(SECONDS / 2, starts=False)

    def close(self) -> None:
        os.close(self.quiet_pod)
        os.close(self.attackers_pod)

    @contextmanager
    def noticed_by_nobody(self) -> Iterator[None]:
        """Nothing is changed or restarted in the block, nor does the quiet tenant wait for long, in it or for a while after it."""
        during, ending = QuietFigures(), threading.Event()

        def measure() -> None:
            while not ending.is_set():
                during.add(self.arena.quiet.measure(SECONDS / 4, starts=False))

        with self.arena.unharmed():
            thread = threading.Thread(target=measure)
            thread.start()
            try:
                yield
            finally:
                ending.set()
                thread.join()
            during.add(self.arena.quiet.measure(SECONDS / 2, starts=False))
        self.check(during)

    def check(self, during: QuietFigures) -> None:
        assert not during.failures, during.failures[:5]
        for name, before, now in (
            ("GET", self.before.get_ms, during.get_ms),
            ("DNS", self.before.dns_ms, during.dns_ms),
        ):
            for share in (0.5, 0.9):
                usual, found = percentile(before, share), percentile(now, share)
                assert found <= TIMES_SLOWER_MAX * usual + SPARE_MS, (
                    f"{name}: {usual:.1f}, now {found:.1f} ms"
                )

    def quiet_service(self, name: str) -> str:
        """The address of a new service for the quiet tenant's pod."""
        caller = self.arena.quiet.caller
        patch = {"metadata": {"labels": {"app": "quiet"}}}
        assert caller.patch(f"{PODS}/quiet", patch).status == 200
        spec = {"selector": {"app": "quiet"}, "ports": [{"port": 80, "targetPort": 8080}]}
        made = caller.post(SERVICES, {"metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made.body
        return str(made.json["spec"]["clusterIP"])

    def quiet_reaches(self, address: str, port: int) -> bool:
        client = connect(self.quiet_pod, address, port, timeout=1.0)
        if client is not None:
            client.close()
        return client is not None


def _namespace(name: str) -> int:
    found = namespaces.open_named(name)
    assert found is not None, name
    return found


@pytest.fixture(scope="module")
def shares(arena: AttackedCluster) -> Iterator[Shares]:
    link = f"alcove-{arena.cluster.nodes[0].instance}"
    for address in WORLD:
        # It goes with the link, at the end of the cluster.
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", link], check=True)
    made = Shares(arena)
    yield made
    made.close()


# Service backends


def flood_of_backends(attacker: Caller, name: str, ports: int, endpoints: int, **spec: str) -> None:
    """A service with so many ports, each of which has so many backends."""
    wanted = [{"name": f"p{number}", "port": 1 + number} for number in range(ports)]
    made = attacker.post(SERVICES, {"metadata": {"name": name}, "spec": {"ports": wanted, **spec}})
    assert made.status == 201, made.body
    backends = [{"addresses": [f"10.77.{number // 250}.{1 + number % 250}"]} for number in range(endpoints)]
    labels = {"kubernetes.io/service-name": name}
    body = {"metadata": {"name": name, "labels": labels}, "addressType": "IPv4"}
    made = attacker.post(SLICES, {**body, "endpoints": backends, "ports": wanted})
    assert made.status == 201, made.body


def warned(caller: Caller, reason: str) -> set[str]:
    """The names of objects that have an event with this reason."""
    events = caller.get("/api/v1/namespaces/default/events").json["items"]
    return {each["involvedObject"]["name"] for each in events if each["reason"] == reason}


def test_a_tenant_that_fills_its_share_of_service_backends_leaves_others_theirs(shares: Shares) -> None:
    attacker = shares.arena.attacker
    names = [f"full-{number}" for number in range(8)]
    old = shares.quiet_service("old")
    wait_until(lambda: shares.quiet_reaches(old, 80), WAIT_SECONDS)
    with shares.noticed_by_nobody():
        for name in names:
            flood_of_backends(attacker, name, 10, 1_000)
        fitting = SERVICE_ENTRIES.owner_max // (10 * 1_001)
        wait_until(lambda: warned(attacker, TOO_MANY_SERVICES) == {*names[fitting:]}, WAIT_SECONDS)
        assert shares.quiet_reaches(old, 80)
        new = shares.quiet_service("new")
        wait_until(lambda: shares.quiet_reaches(new, 80), WAIT_SECONDS)
    remove(attacker, names)


def test_a_service_with_more_backends_than_anybody_may_have_burdens_nobody(shares: Shares) -> None:
    """Ports times endpoints: a thousand of each fit into two small objects."""
    attacker = shares.arena.attacker
    with shares.noticed_by_nobody():
        flood_of_backends(attacker, "giant", 1_000, 1_000)
        flood_of_backends(attacker, "giant-names", 1_000, 1_000, clusterIP="None")
        wait_until(lambda: "giant" in warned(attacker, TOO_MANY_SERVICES), WAIT_SECONDS)
        newest = shares.quiet_service("newest")
        wait_until(lambda: shares.quiet_reaches(newest, 80), WAIT_SECONDS)
    remove(attacker, ["giant", "giant-names"])


def remove(attacker: Caller, names: list[str]) -> None:
    for name in names:
        for path in (SERVICES, SLICES):
            assert attacker.delete(f"{path}/{name}").status == 200


# The way out


class World:
    """A host of the world that gets datagrams, and sends some back."""

    def __init__(self) -> None:
        self.where = (WORLD[0], free_port())
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        self._socket.bind(self.where)
        self.flooded = 0
        """Datagrams that it did not wait for."""

    def answers(self, namespace: int, seconds: float) -> bool:
        """Whether a client there gets an answer."""
        text = os.urandom(8)
        with opened(namespace, socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(seconds)
            self._socket.settimeout(seconds)
            client.sendto(text, self.where)
            try:
                data, sender = self._socket.recvfrom(64)
                while data != text:
                    self.flooded += 1
                    data, sender = self._socket.recvfrom(64)
                self._socket.sendto(text, sender)
                return client.recv(64) == text
            except TimeoutError:
                return False

    def close(self) -> None:
        self._socket.close()


def test_a_tenant_that_uses_up_its_ports_to_a_destination_leaves_others_theirs(shares: Shares) -> None:
    low, high = DataplaneSettings("t", IPv4Address(0), "eth0").nat_ports
    share = (high - low + 1) // DESTINATION_SHARE
    system = shares.arena.cluster.server.system
    for name, caller in ((ATTACKER, shares.arena.attacker), (QUIET, shares.arena.quiet.caller)):
        allowed = {"spec": {"egress": {"allowedCIDRs": [f"{WORLD[0]}/32"]}}}
        assert system.patch(f"/api/v1/tenants/{name}", allowed).status == 200
        assert caller.patch(NETWORK, {"spec": {"egress": {"enabled": True}}}).status == 200
    with closing(World()) as world:
        for pod in (shares.attackers_pod, shares.quiet_pod):
            wait_until(partial(world.answers, pod, 1.0), WAIT_SECONDS)
        world.flooded = 0
        with shares.noticed_by_nobody():
            for number in range(share + 200):
                with opened(shares.attackers_pod, socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.bind(("", 10_000 + number))
                    sender.sendto(b"flood", world.where)
            # What the attacker sent came before it, or was dropped.
            assert world.answers(shares.quiet_pod, 5.0)
            # Some of the first may be the attacker's before the flood.
            assert share - 20 <= world.flooded <= share
            times = [seconds_of(partial(world.answers, shares.quiet_pod, 5.0)) for _ in range(20)]
            assert percentile(times, 0.5) < 0.05, times
            assert not world.answers(shares.attackers_pod, 0.5), "it has more than its share"


def seconds_of(work: Callable[[], bool]) -> float:
    began = time.monotonic()
    assert work()
    return time.monotonic() - began


# Handshakes


def make_ingress(
    shares: Shares, tenant: str, caller: Caller, key: CertificateIssuerPrivateKeyTypes | None
) -> bytes:
    """Serves the host `TENANT.example` by TLS. Returns its certificate."""
    host = f"{tenant}.example"
    system = shares.arena.cluster.server.system
    assert system.patch(f"/api/v1/tenants/{tenant}", {"spec": {"domains": [host]}}).status == 200
    chain, private = self_signed(host, key=key)
    data = {name: base64.b64encode(pem).decode() for name, pem in (("tls.crt", chain), ("tls.key", private))}
    secret = {"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", "data": data}
    backend = {"service": {"name": "ingress", "port": {"number": 80}}}
    rule = {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    spec: Object = {
        "ingressClassName": "alcove",
        "rules": [rule],
        "tls": [{"hosts": [host], "secretName": "tls"}],
    }
    ports = {"selector": {"app": "quiet"}, "ports": [{"port": 80, "targetPort": 8080}]}
    for path, body in (
        ("/api/v1/namespaces/default/secrets", secret),
        (SERVICES, {"metadata": {"name": "ingress"}, "spec": ports}),
        (INGRESSES, {"metadata": {"name": "secure"}, "spec": spec}),
    ):
        made = caller.post(path, body)
        assert made.status == 201, made.body
    return chain


def asked(address: str, host: str, certificate: bytes) -> int:
    """The status of an answer by the Ingress; 0 if there is none."""
    context = ssl.create_default_context(cadata=certificate.decode())
    try:
        with (
            socket.create_connection((address, 443), timeout=5.0) as plain,
            context.wrap_socket(plain, server_hostname=host) as client,
        ):
            client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            response = http.client.HTTPResponse(client)
            response.begin()
            return response.status
    except (OSError, http.client.HTTPException):
        return 0


def test_handshakes_with_the_largest_keys_delay_nobodys_names_probes_and_pages(shares: Shares) -> None:
    address, quiet = shares.node.address, shares.arena.quiet.caller
    patch = {"metadata": {"labels": {"app": "quiet"}}}
    assert quiet.patch(f"{PODS}/quiet", patch).status == 200
    own = make_ingress(shares, QUIET, quiet, None)
    large = make_ingress(
        shares, ATTACKER, shares.arena.attacker, rsa.generate_private_key(65537, RSA_BITS_MAX)
    )
    # There is no file, which only the pod can say.
    wait_until(lambda: asked(address, "quiet.example", own) == 404, WAIT_SECONDS)
    wait_until(lambda: asked(address, "mallory.example", large) == 503, WAIT_SECONDS)
    with HandshakeFlood(address, "mallory.example", WORLD) as flood, shares.noticed_by_nobody():
        for _ in range(10):
            began = time.monotonic()
            assert asked(address, "quiet.example", own) == 404
            assert time.monotonic() - began < PAGE_SECONDS_MAX
    assert flood.made >= 100, flood.made
