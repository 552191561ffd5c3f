"""Clients of others at a pod that really runs: its log, commands in it, its ports. As one tenant of two."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import kr8s
import kubernetes
import kubernetes_asyncio
import lightkube
import pytest
from kr8s.asyncio.objects import Pod
from kubernetes import stream
from kubernetes_asyncio import stream as async_stream

from alcove.testing.cluster import PODS, RealCluster, lacking, pod, ready
from alcove.testing.server import Caller, wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
untyped: Any = kubernetes
untyped_async: Any = kubernetes_asyncio
streams: Any = stream
SERVES = "mkdir /tmp/w; echo hello >/tmp/w/index.html; echo first; sleep 1; echo second; httpd -f -p 8080 -h /tmp/w"


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """One with a pod `web` that has logged two lines and serves a page."""
    with RealCluster(tmp_path_factory.mktemp("clients")) as cluster:
        caller = cluster.make_tenant("acme")
        assert caller.post(PODS, pod("web", SERVES)).status == 201
        ready(caller, "web", 60)
        wait_until(lambda: caller.get(f"{PODS}/web/log").body == b"first\nsecond\n")
        yield caller


@pytest.fixture
def core(tenant: Caller) -> Iterator[Any]:
    with untyped.config.new_client_from_config(str(tenant.kubeconfig)) as api:
        yield untyped.client.CoreV1Api(api)


def test_kubernetes_reads_and_follows_logs(core: Any) -> None:
    assert core.read_namespaced_pod_log("web", "default") == "first\nsecond\n"
    assert core.read_namespaced_pod_log("web", "default", tail_lines=1) == "second\n"
    followed = untyped.watch.Watch().stream(core.read_namespaced_pod_log, "web", "default")
    assert [next(followed), next(followed)] == ["first", "second"]


def test_kubernetes_runs_commands(core: Any) -> None:
    output = streams.stream(
        core.connect_get_namespaced_pod_exec,
        "web",
        "default",
        command=["cat", "/tmp/w/index.html"],
        stdout=True,
        stderr=True,
        stdin=False,
        tty=False,
    )
    assert output == "hello\n"
    running = streams.stream(
        core.connect_get_namespaced_pod_exec,
        "web",
        "default",
        command=["sh"],
        stdout=True,
        stderr=True,
        stdin=True,
        tty=False,
        _preload_content=False,
    )
    running.write_stdin("echo out; echo bad >&2; exit 3\n")
    running.run_forever(timeout=60)
    assert (running.read_stdout(), running.read_stderr(), running.returncode) == ("out\n", "bad\n", 3)


def test_kubernetes_reaches_ports(core: Any) -> None:
    forward = streams.portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="8080")
    opened = forward.socket(8080)
    opened.setblocking(True)
    opened.sendall(b"GET / HTTP/1.0\r\n\r\n")
    answer = b""
    while piece := opened.recv(4096):
        answer += piece
    opened.close()
    assert answer.endswith(b"hello\n") and forward.error(8080) is None


async def test_asyncio_logs_and_commands(tenant: Caller) -> None:
    configuration = untyped_async.client.Configuration()
    await untyped_async.config.load_kube_config(str(tenant.kubeconfig), client_configuration=configuration)
    async with untyped_async.client.ApiClient(configuration) as api:
        core = untyped_async.client.CoreV1Api(api)
        assert await core.read_namespaced_pod_log("web", "default") == "first\nsecond\n"
    async with async_stream.WsApiClient(configuration) as api:
        core = untyped_async.client.CoreV1Api(api)
        output = await core.connect_get_namespaced_pod_exec(
            "web",
            "default",
            command=["cat", "/tmp/w/index.html"],
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
        )
        assert output == "hello\n"


@pytest.fixture
async def web(tenant: Caller) -> AsyncIterator[Pod]:
    api = await kr8s.asyncio.api(kubeconfig=str(tenant.kubeconfig))
    yield await Pod.get("web", namespace="default", api=api)


async def test_kr8s_logs_commands_and_ports(web: Pod) -> None:
    assert [line async for line in web.logs()] == ["first", "second"]
    done = await web.exec(["sh", "-c", "echo out; echo bad >&2; exit 3"], check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"bad\n", 3)
    async with web.portforward(remote_port=8080, local_port="auto") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.read()).endswith(b"hello\n")
        writer.close()


def test_lightkube_reads_logs(tenant: Caller) -> None:
    client = lightkube.Client(config=lightkube.KubeConfig.from_file(str(tenant.kubeconfig)))
    assert [line.rstrip("\n") for line in client.log("web")] == ["first", "second"]


def test_a_missing_pod_is_reported(core: Any) -> None:
    with pytest.raises(untyped.client.ApiException, match="404 Not Found"):
        streams.stream(core.connect_get_namespaced_pod_exec, "nobody", "default", command=["true"])
