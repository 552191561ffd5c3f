"""A quiet tenant that measures while another tenant attacks the cluster: reads from the API server, DNS answers
in a pod's network, pod starts, and whether probes keep its pod alive.

    quiet = QuietTenant(cluster, "quiet")
    before = quiet.measure(seconds=5)
    with Abuse(…):
        during = quiet.measure(seconds=10)

Everything is measured from outside, by blocking sockets in threads of this process. Attacks therefore run in
processes of their own (`alcove.testing.abuse`). Quiet clients have machines of their own as abusers have: they connect
from another address, and their threads do not wait for a core behind the cluster's (in `raised_session`, where the
kernel groups processes by sessions).
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import orjson
from dnslib import DNSRecord
from msgspec import Struct, field

from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.processes.priorities import (
    SERVER_RAISED_BY,
    raise_thread_priority,
    session_priority,
    set_session_priority,
)
from alcove.testing.cluster import PODS, LocalCluster, RealCluster, condition, create, pod, ready
from alcove.testing.load import LoadClient
from alcove.testing.probes import opened
from alcove.testing.server import LocalServer

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
PLAIN = "plain"
"""RuntimeClass of containers without a sandbox: other processes can open sockets in their network namespace."""
READ = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
NAME = "kubernetes.default.svc.cluster.local"
ADDRESS = "127.0.0.2"
"""Of quiet clients. The number of connections without a request is bounded for each address."""
PAUSE_SECONDS = 0.01
ANSWER_SECONDS_MAX = 10.0
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


def add_plain_class(cluster: LocalCluster, tenant: str) -> dict[str, str]:
    """Fields of a pod in a plain container. Empty for a hollow node, which has no runtimes."""
    if not cluster.runs_pods:
        return {}
    for caller in (cluster.server.as_tenant(tenant), cluster.server.system):
        answer = caller.post(CLASSES, {"metadata": {"name": PLAIN}, "handler": "crun"})
        assert answer.status in (201, 409), answer.body
    return {"runtimeClassName": PLAIN}


class QuietTenant:
    """A tenant with one pod, which a liveness probe restarts if the node does not reach it."""

    def __init__(self, cluster: LocalCluster, name: str, **spec: object) -> None:
        """`spec` are fields of the pods whose start is measured. On a hollow node no DNS is measured."""
        self.caller = cluster.make_tenant(name)
        self._spec = spec
        uid = create(self.caller, self._probed_pod(**add_plain_class(cluster, name)))
        ready(self.caller, "quiet", START_SECONDS_MAX)
        self._namespace: int | None = None
        if isinstance(cluster, RealCluster):
            self._namespace = namespaces.open_named(pod_namespace(cluster, uid))
            assert self._namespace is not None
        dns = self.caller.get("/api/v1/namespaces/kube-system/services/kube-dns-default").json
        self.dns_address = str(dns["spec"]["clusterIP"])

    @staticmethod
    def _probed_pod(**spec: object) -> Object:
        wanted = pod("quiet", "mkdir /www; exec httpd -f -p 8080 -h /www", **spec)
        check = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3}
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

    def has_dns(self) -> bool:
        """Whether its DNS server answers each question of a moment within a second."""
        figures = QuietFigures()
        self._resolve(figures, time.monotonic() + 0.3, answer_seconds=1.0)
        return bool(figures.dns_ms) and not figures.failures

    def measure(
        self, seconds: float, *, starts: bool = True, overrun_seconds: float = START_SECONDS_MAX
    ) -> QuietFigures:
        """Measures all at the same time. What has begun may take `overrun_seconds` longer; then it has failed."""
        figures = QuietFigures()
        until = time.monotonic() + seconds
        works: list[Callable[[QuietFigures, float], None]] = [self._read]
        if self._namespace is not None:
            works.append(self._resolve)
        if starts:
            works.append(lambda figures, until: self._start_pods(figures, until, overrun_seconds))
        threads = [threading.Thread(target=_promptly, args=(work, figures, until)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return figures

    def _read(self, figures: QuietFigures, until: float) -> None:
        client = LoadClient(self.caller.kubeconfig, ADDRESS)
        connection: http.client.HTTPSConnection | None = None
        while time.monotonic() < until:
            began = time.perf_counter()
            try:
                connection = connection or _connect(client)
                status = _get(connection, client.path(READ))
                if status != 200:
                    figures.failures.append(f"GET: {status}")
            except (OSError, http.client.HTTPException) as error:
                figures.failures.append(f"GET: {error!r}")
                if connection is not None:
                    connection.close()
                connection = None
            figures.get_ms.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_SECONDS)

    def _resolve(
        self, figures: QuietFigures, until: float, answer_seconds: float = ANSWER_SECONDS_MAX
    ) -> None:
        assert self._namespace is not None
        with opened(self._namespace, socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(answer_seconds)
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

    def _start_pods(self, figures: QuietFigures, until: float, overrun_seconds: float) -> None:
        client = LoadClient(self.caller.kubeconfig, ADDRESS)
        while (began := time.monotonic()) < until:
            name = f"start-{next(_NUMBERS)}"
            start = _PodStart(client, name, until + overrun_seconds)
            try:
                taken = start.run(pod(name, "sleep 1000", **self._spec))
            except (OSError, http.client.HTTPException, AssertionError) as error:
                figures.failures.append(f"pod start: {error!r}")
                # A pod that did not start is no quick start.
                taken = max(time.monotonic() - began, overrun_seconds)
                time.sleep(PAUSE_SECONDS)
            finally:
                start.end()
            figures.start_ms.append(taken * 1000)


class _PodStart:
    """A pod that is created, watched until it is ready, and deleted."""

    def __init__(self, client: LoadClient, name: str, deadline: float) -> None:
        """Nothing is waited for after the deadline."""
        self._client = client
        self._name = name
        self._deadline = deadline
        self._connections: list[http.client.HTTPSConnection] = []
        self._events: http.client.HTTPResponse | None = None

    def run(self, wanted: Object) -> float:
        """Seconds from the request until the watch shows that the pod is ready.

        Raises OSError, HTTPException or AssertionError if it does not become ready."""
        seconds = max(1, round(self._deadline - time.monotonic()))
        selected = f"{PODS}?watch=true&fieldSelector=metadata.name%3D{self._name}&timeoutSeconds={seconds}"
        self._events = self._request("GET", selected)
        began = time.perf_counter()
        answer = self._request("POST", PODS, orjson.dumps(wanted))
        body = answer.read()
        assert answer.status == 201, (answer.status, body[:200])
        self._until(lambda event: condition(event["object"], "Ready") == "True")
        return time.perf_counter() - began

    def end(self) -> None:
        """Deletes the pod, and waits until it is gone."""
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            self._request("DELETE", f"{PODS}/{self._name}", b'{"gracePeriodSeconds":0}').read()
            self._until(lambda event: event["type"] == "DELETED")
        for each in self._connections:
            each.close()

    def _request(self, method: str, path: str, body: bytes | None = None) -> http.client.HTTPResponse:
        connection = self._client.connect()
        self._connections.append(connection)
        assert isinstance(connection.sock, socket.socket)
        connection.sock.settimeout(max(1.0, self._deadline - time.monotonic()))
        connection.request(
            method, self._client.path(path), body, {"Content-Type": "application/json"} if body else {}
        )
        return connection.getresponse()

    def _until(self, holds: Callable[[Object], bool]) -> None:
        while self._events is not None and (line := self._events.readline()):
            if holds(orjson.loads(line)):
                return
        raise AssertionError("not seen in time")


@contextlib.contextmanager
def raised_session() -> Iterator[None]:
    """What is measured in the block is not how long this process's session waits for a core."""
    before = session_priority(os.getpid())
    set_session_priority(os.getpid(), min(before, -SERVER_RAISED_BY))
    try:
        yield
    finally:
        set_session_priority(os.getpid(), before)


def _promptly(work: Callable[[QuietFigures, float], None], figures: QuietFigures, until: float) -> None:
    raise_thread_priority(SERVER_RAISED_BY)
    work(figures, until)


def _connect(client: LoadClient) -> http.client.HTTPSConnection:
    connection = client.connect()
    assert isinstance(connection.sock, socket.socket)
    connection.sock.settimeout(ANSWER_SECONDS_MAX)
    return connection


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
        self._client = LoadClient(server.admin_kubeconfig, ADDRESS)
        self._statistics = Path(f"/proc/{server.pid}/schedstat")
        self._stopping = threading.Event()
        self.longest_ms = 0.0
        self.busy_ms = 0.0

    def _computed_ms(self) -> float:
        return int(self._statistics.read_text().split()[0]) / 1e6

    def run(self) -> None:
        raise_thread_priority(SERVER_RAISED_BY)
        connection: http.client.HTTPSConnection | None = None
        while not self._stopping.wait(0.002):
            computed, began = self._computed_ms(), time.perf_counter()
            is_answered = False
            while not is_answered and not self._stopping.is_set():
                try:
                    connection = connection or _connect(self._client)
                    _get(connection, self._client.path("/livez"))
                    is_answered = True
                except (OSError, http.client.HTTPException):
                    if connection is not None:
                        connection.close()
                    connection = None
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
