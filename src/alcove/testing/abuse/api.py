"""Abuse of the API server: its time, its memory and its connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable

from alcove.testing.abuse.attacker import ADMISSION, CORE, Attacker, config_map, get

CONNECTIONS = 300
WATCHES = 300
BIG_BYTES = 1_000_000


# Time on the API server


async def costly_policies(attacker: Attacker) -> None:
    """Policies whose expressions take long, for each of many parameters."""
    kind = "costly_policies"
    for number in range(50):
        await attacker.send(
            kind, "POST", f"{CORE}/configmaps", config_map(f"param-{number}", 2_000, param="yes")
        )
    text = "object.metadata.name"
    costly = f"[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, {text}.matches('(a|aa)+$') || a+b+c > 0)))"
    spec = {
        "failurePolicy": "Ignore",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}
            ]
        },
        "validations": [{"expression": costly}] * 16,
    }
    for number in range(4):
        policy = {"metadata": {"name": f"costly-{number}"}, "spec": spec}
        await attacker.send(kind, "POST", f"{ADMISSION}/validatingadmissionpolicies", policy)
        reference = {"selector": {"matchLabels": {"param": "yes"}}, "namespace": "default"}
        binding = {
            "policyName": f"costly-{number}",
            "paramRef": {**reference, "parameterNotFoundAction": "Allow"},
            "validationActions": ["Audit"],
        }
        made = {"metadata": {"name": f"costly-{number}"}, "spec": binding}
        await attacker.send(kind, "POST", f"{ADMISSION}/validatingadmissionpolicybindings", made)
    path = f"{CORE}/secrets?dryRun=All"
    await attacker.repeat(
        lambda number: attacker.send(
            kind,
            "POST",
            path,
            {"metadata": {"name": f"{'a' * 60}-{number}"}, "stringData": {"x": "y" * 5_000}},
        )
    )


async def list_flood(attacker: Attacker) -> None:
    """Lists of everything, with selectors that match nothing."""
    for number in range(500):
        await attacker.send(
            "list_flood", "POST", f"{CORE}/configmaps", config_map(f"listed-{number}", 2_000, a="b")
        )
    selector = ",".join(f"k{number}!=v" for number in range(40))
    paths = [
        f"{CORE}/configmaps",
        f"{CORE}/configmaps?labelSelector={selector}",
        "/api/v1/pods",
        "/api/v1/events",
        "/api/v1/nodes",
        "/openapi/v2",
        "/openapi/v3",
    ]
    await attacker.repeat(lambda number: attacker.send("list_flood", "GET", paths[number % len(paths)]), 16)


async def large_patches(attacker: Attacker) -> None:
    """Server-side apply and patches of big objects."""
    kind, path = "large_patches", f"{CORE}/configmaps/patched"
    keys = {f"key-{number}": "v" * 20 for number in range(12_000)}
    await attacker.send(kind, "POST", f"{CORE}/configmaps", {"metadata": {"name": "patched"}, "data": keys})

    def patch(number: int) -> Awaitable[int]:
        return attacker.send(kind, "PATCH", path, {"data": {each: str(number) for each in keys}})

    await attacker.repeat(patch)


# Bytes and connections


async def watch_flood(attacker: Attacker) -> None:
    """Watches that nobody reads, and writes that each of them is sent."""
    path = f"{CORE}/configmaps?watch=true&timeoutSeconds=600"

    async def write(number: int) -> None:
        name = f"watched-{number % 8}"
        body = config_map(name, 20_000, number=str(number))
        if await attacker.send("watch_flood", "PATCH", f"{CORE}/configmaps/{name}", body) == 404:
            await attacker.send("watch_flood", "POST", f"{CORE}/configmaps", body)

    watches = attacker.hold("watch_flood", WATCHES, get(path))
    await asyncio.gather(watches, attacker.repeat(write))


async def connection_flood(attacker: Attacker) -> None:
    """Idle connections of an authenticated client."""
    await attacker.hold("connection_flood", CONNECTIONS, b"")


async def anonymous_connections(attacker: Attacker) -> None:
    """Idle connections without a credential, and half of a request's head."""
    await attacker.hold("anonymous_connections", CONNECTIONS, b"GET / HTT", anonymous=True)


async def handshake_flood(attacker: Attacker) -> None:
    """New connections without end."""

    async def one(_number: int) -> None:
        with contextlib.suppress(OSError):
            _, writer = await attacker.connect(anonymous=True)
            attacker.outcomes["handshake_flood opened"] += 1
            writer.transport.abort()
        await asyncio.sleep(0.01)

    await attacker.repeat(one)


async def slow_bodies(attacker: Attacker) -> None:
    """Bodies of which a byte comes each second."""
    head = f"POST {CORE}/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = f"{head}Content-Length: {3 << 20}\r\n\r\n".encode() + b'{"data":{"x":"' + b"y" * 100_000
    half = (CONNECTIONS // 2, sent, b"y")
    await asyncio.gather(
        attacker.hold("slow_bodies", *half), attacker.hold("slow_bodies anonymous", *half, anonymous=True)
    )


async def tiny_chunks(attacker: Attacker) -> None:
    """Bodies in chunks of one byte on many connections, with a credential and without: much to parse in few bytes."""
    head = f"POST {CORE}/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()

    async def one(number: int) -> None:
        with contextlib.suppress(OSError):
            _, writer = await attacker.connect(anonymous=number % 4 == 0)
            attacker.outcomes["tiny_chunks opened"] += 1
            writer.write(sent)
            for _ in range(200):
                writer.write(b"1\r\ny\r\n" * 2_500)
                await writer.drain()
            writer.transport.abort()

    await attacker.repeat(one, CONNECTIONS // 4)


async def pipelining(attacker: Attacker) -> None:
    """Many requests in one segment, whose answers are not read."""
    requests = get(f"{CORE}/configmaps?limit=500") * 64
    await attacker.hold("pipelining", 32, requests, requests)


async def large_objects(attacker: Attacker) -> None:
    """Objects as big as they may be, written again and again."""

    async def write(number: int) -> None:
        name = f"large-{number % 16}"
        await attacker.send("large_objects", "DELETE", f"{CORE}/configmaps/{name}")
        await attacker.send("large_objects", "POST", f"{CORE}/configmaps", config_map(name, BIG_BYTES))

    await attacker.repeat(write)


async def events_flood(attacker: Attacker) -> None:
    def write(number: int) -> Awaitable[int]:
        about = {"kind": "Pod", "name": f"p{number}", "namespace": "default"}
        event = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "message": "m" * 1_000}
        return attacker.send("events_flood", "POST", f"{CORE}/events", event)

    await attacker.repeat(write)
