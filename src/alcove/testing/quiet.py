"""A quiet tenant that measures while another tenant attacks the cluster: reads from the API server, DNS answers
in a pod's network, pod starts, and whether probes keep its pod alive.

    quiet = QuietTenant(cluster, "quiet")
    before = quiet.measure(seconds=5)
    with Abuse(…):
        during = quiet.measure(seconds=10)

Everything is measured from outside, by blocking sockets in threads of this process. Attacks therefore run in
processes of their own (`alcove.testing.abuse`).
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import orjson
from dnslib import DNSRecord
from msgspec import Struct, field

from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.testing.cluster import PODS, RealCluster, condition, create, gone, pod, ready
from alcove.testing.load import LoadClient
from alcove.testing.probes import opened
from alcove.testing.server import LocalServer

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
PLAIN = "plain"
"""RuntimeClass of containers without a sandbox: other processes can open sockets in their network namespace."""
READ = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
NAME = "kubernetes.default.svc.cluster.local"
PAUSE_SECONDS = 0.01
ANSWER_SECONDS_MAX = 2.0
START_SECONDS_MAX = 60.0
_NUMBERS = count(1)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


class QuietFigures(Struct):
    """Durations in milliseconds, in the order in which they were measured."""

    get_ms: list[float] = field(default_factory=list)
    dns_ms: list[float] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Requests and queries without an answer, and pods that did not start."""

    @property
    def get_p99_ms(self) -> float:
        return percentile(self.get_ms, 0.99)

    @property
    def get_p90_ms(self) -> float:
        return percentile(self.get_ms, 0.9)

    @property
    def dns_p90_ms(self) -> float:
        return percentile(self.dns_ms, 0.9)

    @property
    def dns_p99_ms(self) -> float:
        return percentile(self.dns_ms, 0.99)

    @property
    def start_p50_ms(self) -> float:
        return percentile(self.start_ms, 0.5)

    def add(self, other: QuietFigures) -> None:
        self.get_ms += other.get_ms
        self.dns_ms += other.dns_ms
        self.start_ms += other.start_ms
        self.failures += other.failures


def pod_namespace(cluster: RealCluster, uid: str) -> str:
    """The name of the network namespace of a pod on the first node."""
    return f"alcove-{cluster.nodes[0].instance}-p{uid}"


def add_plain_class(cluster: RealCluster, tenant: str) -> None:
    for caller in (cluster.server.as_tenant(tenant), cluster.server.system):
        answer = caller.post(CLASSES, {"metadata": {"name": PLAIN}, "handler": "crun"})
        assert answer.status in (201, 409), answer.body


class QuietTenant:
    """A tenant with one pod, which a liveness probe restarts if the node does not reach it."""

    def __init__(self, cluster: RealCluster, name: str, **spec: object) -> None:
        """`spec` are fields of the pods whose start is measured."""
        self.caller = cluster.make_tenant(name)
        self._spec = spec
        add_plain_class(cluster, name)
        uid = create(self.caller, self._probed_pod())
        ready(self.caller, "quiet", START_SECONDS_MAX)
        found = namespaces.open_named(pod_namespace(cluster, uid))
        assert found is not None
        self._namespace = found
        dns = self.caller.get("/api/v1/namespaces/kube-system/services/kube-dns-default").json
        self.dns_address = str(dns["spec"]["clusterIP"])

    @staticmethod
    def _probed_pod() -> Object:
        wanted = pod("quiet", "mkdir /www; exec httpd -f -p 8080 -h /www", runtimeClassName=PLAIN)
        check = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3}
        wanted["spec"]["containers"][0] |= {"livenessProbe": check, "readinessProbe": check}
        return wanted

    @property
    def restarts(self) -> int:
        """How often its pod's container was restarted."""
        statuses = self.caller.get(f"{PODS}/quiet").json["status"].get("containerStatuses") or ()
        return sum(int(each["restartCount"]) for each in statuses)

    @property
    def is_ready(self) -> bool:
        return condition(self.caller.get(f"{PODS}/quiet").json, "Ready") == "True"

    def measure(self, seconds: float, *, starts: bool = True) -> QuietFigures:
        """Measures all at the same time; a pod that is being started at the end is waited for."""
        figures = QuietFigures()
        until = time.monotonic() + seconds
        works: list[Callable[[QuietFigures, float], None]] = [self._read, self._resolve]
        if starts:
            works.append(self._start_pods)
        threads = [threading.Thread(target=work, args=(figures, until)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return figures

    def _read(self, figures: QuietFigures, until: float) -> None:
        client = LoadClient(self.caller.kubeconfig)
        connection: http.client.HTTPSConnection | None = None
        while time.monotonic() < until:
            began = time.perf_counter()
            try:
                connection = connection or client.connect()
                status = _get(connection, client.path(READ))
                if status != 200:
                    figures.failures.append(f"GET: {status}")
            except (OSError, http.client.HTTPException) as error:
                figures.failures.append(f"GET: {error!r}")
                connection = None
            figures.get_ms.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_SECONDS)

    def _resolve(self, figures: QuietFigures, until: float) -> None:
        with opened(self._namespace, socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(ANSWER_SECONDS_MAX)
            sock.connect((self.dns_address, 53))
            while time.monotonic() < until:
                question = DNSRecord.question(NAME)
                data = question.pack()
                began = time.perf_counter()
                try:
                    sock.send(data)
                    while sock.recv(4096)[:2] != data[:2]:
                        pass  # A late answer to an earlier question.
                except OSError as error:
                    figures.failures.append(f"DNS: {error!r}")
                figures.dns_ms.append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE_SECONDS)

    def _start_pods(self, figures: QuietFigures, until: float) -> None:
        client = LoadClient(self.caller.kubeconfig)
        while time.monotonic() < until:
            name = f"start-{next(_NUMBERS)}"
            try:
                figures.start_ms.append(self._start(client, pod(name, "sleep 1000", **self._spec)) * 1000)
            except (OSError, http.client.HTTPException, AssertionError) as error:
                figures.failures.append(f"pod start: {error!r}")

    def _start(self, client: LoadClient, wanted: Object) -> float:
        """Seconds from the request until a watch shows that the pod is ready. The pod is deleted."""
        name = wanted["metadata"]["name"]
        caller, following = client.connect(), client.connect()
        following.request(
            "GET", client.path(f"{PODS}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds=60")
        )
        events = following.getresponse()
        began = time.perf_counter()
        caller.request("POST", client.path(PODS), orjson.dumps(wanted), {"Content-Type": "application/json"})
        answer = caller.getresponse()
        body = answer.read()
        assert answer.status == 201, body[:500]
        try:
            while line := events.readline():
                if condition(orjson.loads(line)["object"], "Ready") == "True":
                    return time.perf_counter() - began
            raise AssertionError(f"{name} was not ready within {START_SECONDS_MAX} s")
        finally:
            following.close()
            caller.close()
            self._delete(name)

    def _delete(self, name: str) -> None:
        # Callers have one connection each: this thread has its own.
        caller = type(self.caller)(self.caller.kubeconfig)
        caller.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        gone(caller, name)
        caller.close()


def _get(connection: http.client.HTTPSConnection, path: str) -> int:
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


class StallMeter(threading.Thread):
    """Asks the API server all the time whether it lives, and keeps the longest time until an answer.

    `busy_ms` is the longest time that the server's main thread computed during one such question: unlike the
    former it does not depend on what else the machine does.
    """

    def __init__(self, server: LocalServer) -> None:
        super().__init__(daemon=True)
        self._client = LoadClient(server.admin_kubeconfig)
        self._statistics = Path(f"/proc/{server.pid}/schedstat")
        self._stopping = threading.Event()
        self.longest_ms = 0.0
        self.busy_ms = 0.0

    def _computed_ms(self) -> float:
        return int(self._statistics.read_text().split()[0]) / 1e6

    def run(self) -> None:
        connection = self._client.connect()
        while not self._stopping.wait(0.002):
            computed, began = self._computed_ms(), time.perf_counter()
            try:
                _get(connection, self._client.path("/livez"))
            except (OSError, http.client.HTTPException):
                connection.close()
                connection = self._client.connect()
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - began) * 1000)
            self.busy_ms = max(self.busy_ms, self._computed_ms() - computed)

    def reset(self) -> None:
        self.longest_ms = self.busy_ms = 0.0

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def __enter__(self) -> StallMeter:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
