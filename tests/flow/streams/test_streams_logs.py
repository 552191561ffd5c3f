"""kubectl logs, through the API server, of containers that really run."""

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from alcove.agent.logs.rotation import LogRotation
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import LocalServer, wait_until

pytestmark = [pytest.mark.root]


def shell(text: str) -> dict[str, object]:
    return {"name": "main", "command": ["sh", "-c", text]}


async def ended(rig: NodeRig, tenant: str, name: str) -> None:
    from alcove.api.ids import TenantId
    from alcove.client.keys import HOME

    pod = rig.pods.find(HOME, TenantId(tenant), "default", name)
    assert pod is not None
    await pod.runtime.wait(pod.containers["main"].id)


async def test_a_log_in_whole_and_in_part(any_rig: NodeRig, server: LocalServer) -> None:
    rig, acme = any_rig, server.as_tenant("acme")
    await rig.pod("acme", "talker", [shell("for i in 1 2 3 4 5; do echo line $i; done; echo oops >&2")])
    await ended(rig, "acme", "talker")
    whole = await rig.kubectl(acme, "logs", "talker")
    assert sorted(whole.out.splitlines()) == [*(f"line {n}" for n in range(1, 6)), "oops"]
    assert [line for line in whole.out.splitlines() if "line" in line] == [f"line {n}" for n in range(1, 6)]
    assert (await rig.kubectl(acme, "logs", "talker", "--tail=2")).out == "".join(
        whole.out.splitlines(keepends=True)[-2:]
    )
    assert (await rig.kubectl(acme, "logs", "talker", "--tail=0")).out == ""
    assert (await rig.kubectl(acme, "logs", "talker", "--limit-bytes=8")).out == whole.out[:8]
    stamped = (await rig.kubectl(acme, "logs", "talker", "--timestamps", "--tail=1")).out
    assert stamped.split()[0].endswith("Z") and stamped.split()[0].startswith("20")
    assert (await rig.kubectl(acme, "logs", "talker", "--since-time=2100-01-01T00:00:00Z")).out == ""
    assert (await rig.kubectl(acme, "logs", "talker", "--since=1h")).out == whole.out


async def test_only_what_was_said_since(rig: NodeRig, server: LocalServer) -> None:
    pod = await rig.pod("acme", "slow", [shell("echo before; echo after")])
    await ended(rig, "acme", "slow")
    log = pod.containers["main"].log_path
    before, after = log.read_text().splitlines(keepends=True)
    log.write_text(before.replace(before[:4], str(int(before[:4]) - 1), 1) + after)  # A year earlier.
    assert (await rig.kubectl(server.as_tenant("acme"), "logs", "slow", "--since=1h")).out == "after\n"


async def test_one_of_both_streams(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "both", [shell("echo out; echo bad >&2")])
    await ended(rig, "acme", "both")
    path = "/api/v1/namespaces/default/pods/both/log"
    acme = server.as_tenant("acme")
    messages = [
        (await rig.kubectl(acme, "get", "--raw", f"{path}?stream={each}")).out
        for each in ("Stdout", "Stderr")
    ]
    assert messages == ["out\n", "bad\n"]
    refused = await rig.kubectl(acme, "get", "--raw", f"{path}?stream=Stdout&tailLines=1")
    assert "mutually exclusive" in refused.errors


async def test_streams_are_counted_while_they_last(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "counted", [shell("echo here; sleep 1000")])

    def open_now() -> int:
        lines = server.system.get("/metrics").body.decode().splitlines()
        return int(
            float(next(line for line in lines if line.startswith("alcove_apiserver_streams ")).split()[1])
        )

    await asyncio.to_thread(wait_until, lambda: open_now() == 0)  # Those of other tests end a moment later.
    following = await rig.begin(server.as_tenant("acme"), "logs", "-f", "counted")
    assert following.stdout is not None
    async with asyncio.timeout(60):
        await following.stdout.readline()
    assert open_now() == 1
    following.kill()
    await following.wait()
    await asyncio.to_thread(wait_until, lambda: open_now() == 0)


async def test_a_log_is_followed_to_the_end_of_its_container(any_rig: NodeRig, server: LocalServer) -> None:
    await any_rig.pod("acme", "ender", [shell("echo first; sleep 1; echo last")])
    done = await any_rig.kubectl(server.as_tenant("acme"), "logs", "-f", "ender")
    assert (done.code, done.out) == (0, "first\nlast\n")


async def test_the_log_of_the_attempt_before(rig: NodeRig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    pod = await rig.pod("acme", "again", [shell("echo one; exit 1")])
    await ended(rig, "acme", "again")
    none = await rig.kubectl(acme, "logs", "again", "--previous")
    assert 'previous terminated container "main" in pod "again" not found' in none.errors
    await rig.start_container(pod, shell("echo two"))
    await ended(rig, "acme", "again")
    assert (await rig.kubectl(acme, "logs", "again", "--previous")).out == "one\n"
    assert (await rig.kubectl(acme, "logs", "again")).out == "two\n"


async def test_nothing_is_lost_where_a_log_is_rotated_while_followed(
    rig: NodeRig, server: LocalServer
) -> None:
    lines = 20_000
    script = f"""
        i=0
        while [ $i -lt {lines} ]; do
            echo line $i of many; i=$((i+1))
            [ $((i % 2000)) = 0 ] && until [ -e /tmp/$i ]; do sleep 0.05; done
        done
    """
    pod = await rig.pod("acme", "chatty", [shell(script)])
    rotation = LogRotation(file_bytes_max=64 << 10, files_max=1_000)
    handle = pod.containers["main"]
    folder = rig.lab.snapshots.mount(handle.id, rig.lab.rootfs) / "tmp"
    rotations = 0

    async def rotate() -> None:
        """The container goes on to its next part, which is more than a file may have, after a rotation for each."""
        nonlocal rotations
        while True:
            if await rotation.rotate(pod.runtime, handle.id, handle.log_path):
                rotations += 1
                (folder / str(2_000 * rotations)).touch()
            await asyncio.sleep(0.05)

    rotating = asyncio.create_task(rotate())
    try:
        followed = await rig.kubectl(server.as_tenant("acme"), "logs", "-f", "chatty")
    finally:
        rotating.cancel()
    expected = [f"line {n} of many" for n in range(lines)]
    assert followed.out.splitlines() == expected
    assert rotations > 5
    assert (await rig.kubectl(server.as_tenant("acme"), "logs", "chatty")).out.splitlines() == expected
    tail = await rig.kubectl(server.as_tenant("acme"), "logs", "chatty", "--tail=9000")
    assert tail.out.splitlines() == expected[-9000:]


async def test_rotation_keeps_so_many_files(rig: NodeRig) -> None:
    pod = await rig.pod("acme", "flood", [shell("yes | head -c 3000000; sleep 1000")])
    handle = pod.containers["main"]
    rotation = LogRotation(file_bytes_max=1, files_max=3)
    for _ in range(6):
        await rotation.rotate(pod.runtime, handle.id, handle.log_path)
        await asyncio.sleep(0.2)
    assert len(list(handle.log_path.parent.glob(f"{handle.log_path.name}*"))) <= 3


async def test_who_reads_slowly_costs_nobody_memory_and_gets_everything(
    rig: NodeRig, server: LocalServer
) -> None:
    size = 24_000_000  # With what each line is prefixed with, still less than a log file may have.
    await rig.pod("acme", "big", [shell(f"yes 012345678901234567890123456789012345678 | head -c {size}")])
    await ended(rig, "acme", "big")
    before = _resident_kb(server.pid)
    reading = await rig.begin(server.as_tenant("acme"), "logs", "big")
    assert reading.stdout is not None
    received = len(await reading.stdout.readexactly(1 << 20))
    await asyncio.sleep(2)
    assert _resident_kb(server.pid) - before < 12 << 10
    async with asyncio.timeout(60):
        while data := await reading.stdout.read(1 << 20):
            received += len(data)
    assert received == size
    assert await reading.wait() == 0


def _resident_kb(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 10


async def test_a_node_that_dies_under_a_follower_is_reported_as_a_failure(
    rig: NodeRig, server: LocalServer
) -> None:
    await rig.pod("acme", "doomed", [shell("echo here; sleep 1000")])
    following = await rig.begin(server.as_tenant("acme"), "logs", "-f", "doomed")
    assert following.stdout is not None
    async with asyncio.timeout(60):
        assert await following.stdout.readline() == b"here\n"
        await rig.stop()
        _, errors = await following.communicate()
    assert following.returncode != 0
    assert b"EOF" in errors
    later = await rig.kubectl(server.as_tenant("acme"), "logs", "doomed")
    assert f'node "{rig.name}" cannot be reached: connection refused' in later.errors


@asynccontextmanager
async def log_socket(
    server: LocalServer, name: str, *protocols: str, **options: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    acme = server.as_tenant("acme")
    context = ssl.create_default_context(cafile=str(server.directory / "pki" / "ca.crt"))
    context.load_cert_chain(acme.kubeconfig.with_suffix(".pem"))
    host, port = server.address
    url = f"https://{host}:{port}/api/v1/namespaces/default/pods/{name}/log"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, ssl=context, protocols=protocols, params=options) as socket,
    ):
        yield socket


async def test_a_log_over_a_websocket(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "chatty", [shell("echo container is alive; echo -n bye")])
    await ended(rig, "acme", "chatty")
    for protocols, chosen in (((), None), (("binary.k8s.io",), "binary.k8s.io")):
        async with log_socket(server, "chatty", *protocols) as socket, asyncio.timeout(60):
            assert socket.protocol == chosen
            messages = [message.data async for message in socket]
            assert messages[0] == b"" and b"".join(messages) == b"container is alive\nbye"
            assert socket.close_code == 1000
    text = "base64.binary.k8s.io"
    async with log_socket(server, "chatty", text) as socket, asyncio.timeout(60):
        assert socket.protocol == text
        lines = [message.data async for message in socket]
        assert lines[0] == "" and b"".join(map(base64.b64decode, lines)).endswith(b"bye")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with log_socket(server, "chatty", "v4.channel.k8s.io"):
            pass
    assert refused.value.status == 400


async def test_a_log_is_followed_over_a_websocket_until_the_client_goes(
    rig: NodeRig, server: LocalServer
) -> None:
    await rig.pod("acme", "endless", [shell("echo one; sleep 2; echo two; sleep 1000")])
    async with (
        log_socket(server, "endless", "binary.k8s.io", follow="true") as socket,
        asyncio.timeout(60),
    ):
        output = b""
        while output != b"one\ntwo\n":
            output += await socket.receive_bytes()
        await socket.ping()
    await asyncio.to_thread(
        wait_until, lambda: "alcove_apiserver_streams 0" in server.system.get("/metrics").body.decode()
    )
