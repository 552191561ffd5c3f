"""Objects and events of a watch that a hostile API server sends."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from alcove.api.objects import Object

LARGE_BYTES = 1 << 20
REVISION_MAX = str(2**63 - 1)
FUTURE: Object = {
    "name": "later",
    "namespace": "default",
    "uid": "later",
    "resourceVersion": REVISION_MAX,
    "creationTimestamp": "9999-12-31T23:59:59Z",
    "deletionTimestamp": "9999-12-31T23:59:59Z",
    "deletionGracePeriodSeconds": 2**62,
}


def event(kind: str, obj: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


END = event(
    "BOOKMARK", {"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}
)


def plain_pod(tenant: str, number: int, revision: int = 1) -> Object:
    metadata = {
        "tenant": tenant,
        "namespace": "default",
        "name": f"pod-{number}",
        "uid": f"uid-{number}",
        "resourceVersion": str(revision),
    }
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {}}


def large_pod(tenant: str, number: int) -> Object:
    pod = plain_pod(tenant, number)
    pod["metadata"]["annotations"] = {"large": "x" * LARGE_BYTES}
    return pod


def forged_pods(tenant: str) -> Iterator[Object]:
    """Of other tenants, of ring0, of no tenant; and its own, bound to nodes, with as much as there is."""
    for number, whose in enumerate(("good", "system", "", "all", "../good")):
        pod = plain_pod(whose, number)
        pod["spec"]["nodeName"] = "n1"
        yield pod
    for number in range(10, 200):
        pod = plain_pod(tenant, number)
        pod["metadata"]["uid"] = f"../../{number}"
        pod["spec"] |= {"nodeName": "n1", "hostNetwork": True, "priority": 2_000_000_000}
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "10000", "memory": "100Ti"}
        pod["status"] = {"nominatedNodeName": "n1", "phase": "Running"}
        yield pod


def _deep(depth: int) -> bytes:
    return (
        b'{"metadata":{"name":"a","tenant":"big","uid":"u","resourceVersion":"1"},"data":'
        + b"[" * depth
        + b"]" * depth
        + b"}"
    )


def _with(**fields: object) -> bytes:
    pod = plain_pod("big", 1)
    return orjson.dumps({**pod, **fields})


MALFORMED: list[bytes] = [
    b"{}",
    b"[]",
    b"7",
    b"null",
    b'"text"',
    b"{",
    b'{"metadata":5}',
    b'{"metadata":{}}',
    b'{"metadata":{"resourceVersion":"x"}}',
    b'{"metadata":{"resourceVersion":"' + b"9" * 5_000 + b'"}}',
    b'{"metadata":{"resourceVersion":"-1","name":"a"}}',
    b'{"metadata":{"resourceVersion":"5","name":"a","tenant":["big"]}}',
    b'{"metadata":{"resourceVersion":"5","name":{},"tenant":"big","namespace":[]}}',
    b'{"metadata":{"resourceVersion":"5","name":"../../../etc","tenant":"big","uid":"u","namespace":"default"}}',
    b'{"metadata":{"resourceVersion":"5","annotations":[],"name":"a","tenant":"big"}}',
    b'{"kind":"Status","code":"x","reason":[],"message":{},"details":7}',
    _deep(900),
    _deep(5_000),
    _with(spec=None),
    _with(spec="x"),
    _with(spec={"containers": 7}),
    _with(spec={"containers": [None, {"name": 1}]}),
    _with(spec={"containers": [{"name": "a", "resources": {"requests": {"cpu": "x"}}}]}),
    _with(spec={"containers": [], "tolerations": {"a": "b"}, "affinity": []}),
    _with(spec={"containers": [], "nodeName": 7, "priority": "high"}),
    _with(status={"conditions": "Ready", "phase": []}),
]
"""Values that are no objects, or not of their kind. Each is sent as an object of every kind."""
