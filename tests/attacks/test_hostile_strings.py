"""Strings that would be paths, lines, ids or names of others, in every string field that reaches a node: nothing appears
outside pods' folders, nothing restarts, and others are served."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from alcove.api import registry
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.testing.abuse.pods import TOKEN
from alcove.testing.attacks import QUIET, AttackedCluster
from alcove.testing.cluster import PODS, create, gone, lacking, pod, ready
from alcove.testing.hostile_fields import FieldPath, hostile_values, placed, string_fields
from alcove.testing.hosttree import traces_of
from alcove.testing.quiet import PLAIN
from alcove.testing.server import Caller, ServerResponse, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

SEED = 7
RUNNING_MAX = 12
"""Accepted pods that are run in the short test."""
PARTS = 16
"""Tests among which all fields and strings are divided, some minutes each."""
SETTLE_SECONDS_MAX = 300.0
KINDS = registry.load()


def kind_of(group: str, resource: str) -> Kind:
    found = KINDS.find(group, "v1", resource)
    assert found is not None
    return found


def full_pod(name: str) -> Object:
    """A pod that uses whatever a node makes of strings: volumes, files, mounts, environment, probes, hooks."""
    item = [{"key": "k", "path": "p"}]
    command = {"exec": {"command": ["true"]}}
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    container = {
        "name": "main",
        "image": "alcove/busybox",
        "command": ["sh", "-c", "sleep 1000"],
        "args": ["a"],
        "workingDir": "/",
        "env": [{"name": "A", "value": "a"}, {"name": "B", "valueFrom": field}],
        "envFrom": [{"prefix": "P", "configMapRef": {"name": "full", "optional": True}}],
        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
        "volumeMounts": [
            {"name": "empty", "mountPath": "/empty", "subPath": "s"},
            {"name": "map", "mountPath": "/map"},
            {"name": "secret", "mountPath": "/secret"},
            {"name": "all", "mountPath": "/all"},
        ],
        "terminationMessagePath": "/dev/end",
        "livenessProbe": command,
        "lifecycle": {"postStart": command},
        "resources": {"requests": {"cpu": "1m"}, "limits": {"memory": "64Mi"}},
    }
    volumes = [
        {"name": "empty", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "map", "configMap": {"name": "full", "items": item, "optional": True}},
        {"name": "secret", "secret": {"secretName": "full", "items": item, "optional": True}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"configMap": {"name": "full", "items": item, "optional": True}},
                    {"downwardAPI": {"items": [{"path": "d", **field}]}},
                    {"serviceAccountToken": {"path": "token", "audience": "a"}},
                ]
            },
        },
    ]
    spec = {
        "runtimeClassName": PLAIN,
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "containers": [container],
        "initContainers": [{"name": "first", "image": "alcove/busybox", "command": ["true"]}],
        "volumes": volumes,
        "hostname": "h",
        "subdomain": "s",
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}],
        "dnsConfig": {
            "nameservers": ["192.0.2.1"],
            "searches": ["a"],
            "options": [{"name": "n", "value": "1"}],
        },
    }
    return {"metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": spec}


def attempts(
    arena: AttackedCluster, kind: Kind, base: Object, below: str, every: bool
) -> Iterator[tuple[FieldPath, str, Object]]:
    """Objects with one hostile string each: every value in every field, or one value in each."""
    chance = random.Random(SEED)
    uid = arena.quiet.caller.get(f"{PODS}/quiet").json["metadata"]["uid"]
    values = hostile_values(QUIET, f"../{uid}", f"{QUIET}/quiet")
    for path in string_fields(kind.schema, base):
        if (path[0] == "status") != (below == "status"):
            continue
        chosen = list(values) if every else [chance.choice(list(values))]
        for name in chosen:
            yield path, name, placed(base, path, values[name])


def check_answer(answer: ServerResponse, path: FieldPath, value: str) -> bool:
    """Whether the object was accepted; refused ones are the client's fault, never the server's."""
    assert answer.status < 500, (path, value, answer.body[:500])
    return answer.status in (200, 201)


def is_settled(caller: Caller, name: str) -> bool:
    """Whether the node has tried to run the pod, with whatever success."""
    status = caller.get(f"{PODS}/{name}").json.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    waiting = [(each.get("state") or {}).get("waiting", {}).get("reason", "") for each in statuses]
    if any(reason not in ("", "ContainerCreating", "PodInitializing") for reason in waiting):
        return True
    selector = f"type%3DWarning,involvedObject.name%3D{name}"
    return status.get("phase") != "Pending" or bool(
        caller.get(f"/api/v1/namespaces/default/events?fieldSelector={selector}").json["items"]
    )


def run_hostile_pods(
    arena: AttackedCluster, every: bool, at_once: int, running_max: int, part: int = 0, parts: int = 1
) -> int:
    """Creates pods with hostile strings on the node, one part of them; returns how many were accepted and run."""
    attacker, ran = arena.attacker, 0
    batch: list[str] = []
    kind = kind_of("", "pods")
    choices = list(attempts(arena, kind, full_pod("x"), "spec", every))
    random.Random(SEED).shuffle(choices)
    for number, (path, value, wanted) in enumerate(choices[part::parts]):
        if isinstance(wanted["metadata"]["name"], str) and wanted["metadata"]["name"] == "x":
            wanted["metadata"]["name"] = f"hostile-{number}"
        wanted["spec"]["nodeName"] = "n1"
        query = "" if ran < running_max else "?dryRun=All"
        answer = attacker.post(PODS + query, wanted)
        if check_answer(answer, path, value) and not query:
            ran += 1
            batch.append(answer.json["metadata"]["name"])
        if len(batch) >= at_once:
            finish(arena, batch)
    finish(arena, batch)
    return ran


def finish(arena: AttackedCluster, batch: list[str]) -> None:
    """Waits until the node has tried the pods, and deletes them."""
    for name in batch:
        try:
            wait_until(lambda name=name: is_settled(arena.attacker, name), SETTLE_SECONDS_MAX)
        except AssertionError as error:
            error.add_note(str(arena.attacker.get(f"{PODS}/{name}").json)[:4_000])
            raise
    for name in batch:
        arena.attacker.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        # One of the hostile strings may be a finalizer, which nobody else removes.
        arena.attacker.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})
    for name in batch:
        gone(arena.attacker, name, SETTLE_SECONDS_MAX)
    batch.clear()


def check_no_traces(arena: AttackedCluster) -> None:
    """No file outside pods' folders has the token in its name."""
    found = [path for path in traces_of(TOKEN) if "/n1/" not in path]
    assert found == []


def test_pods_with_a_hostile_string_in_any_field_leave_nothing_on_the_host(arena: AttackedCluster) -> None:
    with arena.unharmed():
        assert run_hostile_pods(arena, every=False, at_once=12, running_max=RUNNING_MAX) == RUNNING_MAX
    check_no_traces(arena)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_hostile_string_in_every_field_of_a_pod_leaves_nothing_on_the_host(
    arena: AttackedCluster, part: int
) -> None:
    with arena.unharmed():
        ran = run_hostile_pods(arena, every=True, at_once=16, running_max=100_000, part=part, parts=PARTS)
        assert ran > RUNNING_MAX
    check_no_traces(arena)


# Objects beside pods


CORE = "/api/v1/namespaces/default"
NETWORKING = "/apis/networking.k8s.io/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def others() -> list[tuple[str, str, str, Object]]:
    """Group, resource, URL and a valid object of each other kind that nodes read."""
    port = {"name": "http", "port": 80, "protocol": "TCP"}
    backend = {"service": {"name": "s", "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rule = {"host": "a.example.org", "http": {"paths": [path]}}
    peer = {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.1/32"]}}
    endpoint = {"addresses": ["100.96.0.200"], "nodeName": "n1", "hostname": "h", "zone": "z"}
    subset = {"addresses": [{"ip": "100.96.0.200", "hostname": "h"}], "ports": [port]}
    return [
        ("", "services", f"{CORE}/services", {"spec": {"ports": [port], "selector": {"a": "b"}}}),
        ("", "endpoints", f"{CORE}/endpoints", {"subsets": [subset]}),
        (
            *("discovery.k8s.io", "endpointslices", SLICES),
            {"addressType": "IPv4", "endpoints": [endpoint], "ports": [port]},
        ),
        ("", "configmaps", f"{CORE}/configmaps", {"data": {"a": "b"}}),
        ("", "secrets", f"{CORE}/secrets", {"stringData": {"a": "b"}, "type": "Opaque"}),
        ("", "serviceaccounts", f"{CORE}/serviceaccounts", {}),
        ("", "persistentvolumeclaims", f"{CORE}/persistentvolumeclaims", _claim()),
        (
            *("networking.k8s.io", "networkpolicies", f"{NETWORKING}/networkpolicies"),
            {
                "spec": {
                    "podSelector": {"matchLabels": {"a": "b"}},
                    "ingress": [{"from": [peer], "ports": [{"port": 80}]}],
                }
            },
        ),
        (
            *("networking.k8s.io", "ingresses", f"{NETWORKING}/ingresses"),
            {"spec": {"rules": [rule], "tls": [{"hosts": ["a.example.org"], "secretName": "s"}]}},
        ),
        (
            *("arktos.futurewei.com", "networks", "/apis/arktos.futurewei.com/v1/networks"),
            {"spec": {"type": "vpc", "vpcID": "v", "ip": "10.77.0.0", "prefix": "16"}},
        ),
        ("node.k8s.io", "runtimeclasses", "/apis/node.k8s.io/v1/runtimeclasses", {"handler": "crun"}),
        ("", "namespaces", "/api/v1/namespaces", {}),
    ]


def _claim() -> Object:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}


def test_objects_with_a_hostile_string_in_any_field_harm_no_node(arena: AttackedCluster) -> None:
    attacker, made = arena.attacker, []
    with arena.unharmed():
        for group, resource, url, rest in others():
            base = {"metadata": {"name": "x", "labels": {"a": "b"}}, **rest}
            accepted = 0
            for number, (path, value, wanted) in enumerate(
                attempts(arena, kind_of(group, resource), base, "spec", every=False)
            ):
                if wanted["metadata"]["name"] == "x":
                    wanted["metadata"]["name"] = f"hostile-{number}"
                answer = attacker.post(url, wanted)
                if check_answer(answer, path, value):
                    accepted += 1
                    made.append(f"{url}/{answer.json['metadata']['name']}")
            assert accepted, resource
        # What the node makes of them is in effect when a new pod of the same network runs.
        create(attacker, pod("among-hostile", runtimeClassName=PLAIN))
        ready(attacker, "among-hostile", SETTLE_SECONDS_MAX)
        figures = arena.quiet.measure(1.0)
        assert figures.start_ms and not figures.failures, figures.failures
        finish(arena, ["among-hostile"])
        for each in made:
            attacker.delete(each)
    check_no_traces(arena)


# Statuses


def test_a_status_with_a_hostile_string_in_any_field_harms_no_node(arena: AttackedCluster) -> None:
    attacker = arena.attacker
    create(attacker, full_pod("claimed"))
    ready(attacker, "claimed", SETTLE_SECONDS_MAX)
    kind, accepted = kind_of("", "pods"), 0
    with arena.unharmed():
        base: Object = {"status": attacker.get(f"{PODS}/claimed").json["status"]}
        for path, value, wanted in attempts(arena, kind, base, "status", every=False):
            answer = attacker.patch(f"{PODS}/claimed/status", wanted)
            accepted += check_answer(answer, path, value)
        assert accepted
        # An agent that starts adopts the pod with whatever its status says.
        agent = arena.cluster.agents["n1"]
        agent.kill()
        agent.start()
        agent.wait()
        ready(attacker, "claimed", SETTLE_SECONDS_MAX)
        wait_until(lambda: "claimed" in attacker.kubectl("top", "pod", check=False), SETTLE_SECONDS_MAX)
        assert attacker.kubectl("exec", "claimed", "--", "echo", "alive") == "alive\n"
        finish(arena, ["claimed"])
    check_no_traces(arena)


def test_a_link_in_a_volume_is_not_followed_by_way_of_a_containers_name(arena: AttackedCluster) -> None:
    """The pod has links in its emptyDir where the agent would write, and its status names that folder."""
    attacker, node = arena.attacker, arena.cluster.nodes[0]
    canary = arena.cluster.directory / "canary"
    links = " ".join(
        f"/v/b/{name}" for name in (".lost.new", ".process.new", ".lost", "record.json", "config.json")
    )
    command = f"mkdir /v/b; for link in {links}; do ln -s {canary} $link; done; exec sleep 1000"
    wanted = pod("linked", command, **arena.sandboxed)
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    wanted["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    with arena.unharmed():
        create(attacker, wanted)
        ready(attacker, "linked", SETTLE_SECONDS_MAX)
        [folder] = wait_until(
            lambda: [
                each
                for each in node.data.glob("volumes/pods/*/empty/v/b")
                if (each / "config.json").is_symlink()
            ]
        )
        name = f"0/../../../../{folder.relative_to(node.data)}"
        entry = {"name": name, "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
        entry["containerID"] = f"gvisor://{name}"
        answer = attacker.patch(f"{PODS}/linked/status", {"status": {"containerStatuses": [entry]}})
        assert answer.status == 422, answer.body
        main = {**entry, "name": "main"}
        answer = attacker.patch(f"{PODS}/linked/status", {"status": {"containerStatuses": [main]}})
        assert answer.status == 200, answer.body
        wait_until(lambda: "linked" in attacker.kubectl("top", "pod", check=False), SETTLE_SECONDS_MAX)
        finish(arena, ["linked"])
        assert not canary.exists()
