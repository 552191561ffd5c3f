"""A mixed workload ends in the same state whatever happened on the way.

A script of what users do (tenants, namespaces, deployments, stateful sets, jobs; made, scaled, changed,
deleted) is drawn from a seed and run three times: in calm, with controllers that are killed and cut off,
and with controllers whose requests are lost, delayed, refused and whose watches expire. What is there in
the end, but for random names and times, must be the same.
"""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from alcove.controllers.all import CONTROLLERS
from alcove.testing.controllers import RunningControllers
from alcove.testing.controlplane import LocalControllers
from alcove.testing.faults import FaultyTransport, Odds
from alcove.testing.relay import BadNetwork
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until

LEASE = ("--lease-seconds", "3")
ROUGH = Odds(
    lost_before=0.02,
    lost_after=0.03,
    busy=0.03,
    conflict=0.05,
    unknown_place=0.05,
    slow=0.1,
    slow_seconds_max=0.1,
    stream_lost=0.02,
    stream_expired=0.01,
)
PATHS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "Job": "jobs"}
BACKGROUND = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
State = Counter[tuple[Any, ...]]


# What users do


class Step(Struct, frozen=True):
    """One write, retried until the server accepts it, so that every run does the same."""

    method: str
    path: str
    body: dict[str, Any] | None = None


def workload(kind: str, tenant: str, namespace: str, name: str, count: int) -> Step:
    containers = [{"name": "c", "image": "i:1"}]
    pod: dict[str, Any] = {"containers": containers, "automountServiceAccountToken": False}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec: dict[str, Any] = {"template": template}
    group = "batch" if kind == "Job" else "apps"
    if kind == "Job":
        pod["restartPolicy"] = "Never"
        spec |= {"completions": count, "parallelism": 2}
    else:
        spec |= {"replicas": count, "selector": {"matchLabels": {"app": name}}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    path = f"/apis/{group}/v1/tenants/{tenant}/namespaces/{namespace}/{PATHS[kind]}"
    return Step("POST", path, {"metadata": {"name": name}, "spec": spec})


class Script:
    """Draws steps, and keeps their expected result, so that later steps refer to existing objects."""

    def __init__(self, seed: int, count: int) -> None:
        self._chance = random.Random(seed)
        self._number = 0
        self._spaces: list[tuple[str, str]] = []
        self._things: list[tuple[str, Step]] = []
        self.steps: list[Step] = []
        for _ in range(2):
            self._tenant()
        for _ in range(count):
            chances = [self._make] * 4 + [self._resize] * 3 + [self._change] * 2 + [self._touch] * 2
            chances += [self._drop, self._namespace, self._namespace, self._drop_namespace]
            self._chance.choice(chances)()
        self._tenant()
        self._drop_tenant()

    def _next(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _tenant(self) -> None:
        name = self._next("t")
        self.steps.append(Step("POST", "/api/v1/tenants", {"metadata": {"name": name}}))
        self._spaces.append((name, "default"))

    def _namespace(self) -> None:
        tenant, name = self._chance.choice(self._spaces)[0], self._next("n")
        body = {"metadata": {"name": name}}
        self.steps.append(Step("POST", f"/api/v1/tenants/{tenant}/namespaces", body))
        self._spaces.append((tenant, name))

    def _make(self) -> None:
        kind = self._chance.choice(sorted(PATHS))
        space = self._chance.choice(self._spaces)
        step = workload(kind, *space, self._next("w"), self._chance.randint(1, 6))
        self.steps.append(step)
        self._things.append((kind, step))

    def _patch(self, kinds: tuple[str, ...], patch: dict[str, Any]) -> None:
        there = [step for kind, step in self._things if kind in kinds]
        if there:
            step = self._chance.choice(there)
            self.steps.append(Step("PATCH", f"{step.path}/{_name(step)}", patch))

    def _resize(self) -> None:
        self._patch(("Deployment", "StatefulSet"), {"spec": {"replicas": self._chance.randint(0, 8)}})

    def _change(self) -> None:
        containers = [{"name": "c", "image": f"i:{self._chance.randint(2, 9)}"}]
        self._patch(
            ("Deployment", "StatefulSet"), {"spec": {"template": {"spec": {"containers": containers}}}}
        )

    def _touch(self) -> None:
        """A write in between, which outdates what controllers have read."""
        self._patch(tuple(PATHS), {"metadata": {"annotations": {"touched": str(self._chance.random())}}})

    def _drop(self) -> None:
        if self._things:
            _, step = self._things.pop(self._chance.randrange(len(self._things)))
            self.steps.append(Step("DELETE", f"{step.path}/{_name(step)}", BACKGROUND))

    def _drop_namespace(self) -> None:
        there = [space for space in self._spaces if space[1] != "default"]
        if there:
            tenant, name = self._chance.choice(there)
            self._spaces.remove((tenant, name))
            self._forget(f"/tenants/{tenant}/namespaces/{name}/")
            self.steps.append(Step("DELETE", f"/api/v1/tenants/{tenant}/namespaces/{name}"))

    def _drop_tenant(self) -> None:
        tenant = self._spaces[0][0]
        self._spaces = [space for space in self._spaces if space[0] != tenant]
        self._forget(f"/tenants/{tenant}/")
        self.steps.append(Step("DELETE", f"/api/v1/tenants/{tenant}"))

    def _forget(self, within: str) -> None:
        self._things = [each for each in self._things if within not in each[1].path]


def _name(step: Step) -> str:
    assert step.body is not None
    return str(step.body["metadata"]["name"])


def carry_out(ring0: Caller, step: Step) -> None:
    """Retries: a namespace may not exist yet, because its tenant's controllers were killed."""

    def is_done() -> bool:
        kind = {"content_type": "application/merge-patch+json"} if step.method == "PATCH" else {}
        answer: ServerResponse = ring0.request(step.method, step.path, step.body, **kind)
        return answer.status in (200, 201, 202) or (answer.status == 404 and step.method == "DELETE")

    wait_until(is_done, seconds_max=200)


# What nodes do


@contextmanager
def nodes(server: LocalServer) -> Iterator[None]:
    """Pods run, and those of jobs succeed, as soon as they exist."""
    over = threading.Event()
    caller = Caller(server.admin_kubeconfig)

    def run() -> None:
        while not over.wait(0.05):
            for pod in caller.get("/api/v1/tenants/all/pods").json["items"]:
                meta = pod["metadata"]
                if pod["status"].get("phase") == "Pending":
                    path = (
                        f"/api/v1/tenants/{meta['tenant']}/namespaces/{meta['namespace']}/pods/{meta['name']}"
                    )
                    caller.patch(f"{path}/status", {"metadata": {"uid": meta["uid"]}, "status": _ran(pod)})

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _ran(pod: dict[str, Any]) -> dict[str, Any]:
    if pod["metadata"]["ownerReferences"][0]["kind"] == "Job":
        return {"phase": "Succeeded"}
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


# What there is


def _of_workload(obj: dict[str, Any]) -> tuple[Any, ...]:
    fields = ("replicas", "readyReplicas", "updatedReplicas", "succeeded", "active", "failed")
    observed = obj.get("status") or {}
    status = tuple(observed.get(field, 0) for field in fields)
    pod = obj["spec"]["template"]["spec"]
    conditions = {each["type"] for each in observed.get("conditions") or () if each["status"] == "True"}
    is_seen = observed.get("observedGeneration", obj["metadata"].get("generation"))
    return (
        obj["spec"].get("replicas", 0),
        status,
        pod["containers"][0]["image"],
        "Complete" in conditions,
        is_seen == obj["metadata"].get("generation"),
    )


def _of_pod(pod: dict[str, Any]) -> tuple[Any, ...]:
    owner = pod["metadata"]["ownerReferences"][0]
    return owner["kind"], owner["name"], pod["status"].get("phase"), pod["spec"]["containers"][0]["image"]


def _plain(_obj: dict[str, Any]) -> tuple[Any, ...]:
    return ()


_LOOKED_AT: dict[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    "/api/v1/tenants": _plain,
    "/api/v1/tenants/all/namespaces": lambda obj: (obj["status"]["phase"],),
    "/api/v1/tenants/all/serviceaccounts": _plain,
    "/api/v1/tenants/all/configmaps": _plain,
    "/api/v1/tenants/all/services": _plain,
    "/api/v1/tenants/all/pods": _of_pod,
    "/apis/apps/v1/tenants/all/deployments": _of_workload,
    "/apis/apps/v1/tenants/all/statefulsets": _of_workload,
    "/apis/batch/v1/tenants/all/jobs": _of_workload,
    "/apis/apps/v1/tenants/all/replicasets": lambda obj: (obj["spec"]["replicas"],),
    "/apis/storage.k8s.io/v1/tenants/all/storageclasses": _plain,
    "/apis/rbac.authorization.k8s.io/v1/tenants/all/clusterrolebindings": _plain,
    "/apis/arktos.futurewei.com/v1/tenants/all/networks": lambda obj: (
        (obj.get("status") or {}).get("phase"),
    ),
    "/apis/mizar.com/v1/vpcs": _plain,
    "/apis/mizar.com/v1/subnets": _plain,
}
_RANDOM = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")


def state(ring0: Caller) -> State:
    """Counts the objects by everything that is not random."""
    found: State = Counter()
    for path, summarize in _LOOKED_AT.items():
        for obj in ring0.get(path).json["items"]:
            # Which of the templates in between a deployment saw is left to chance.
            if path.endswith("replicasets") and not obj["spec"]["replicas"]:
                continue
            meta = obj["metadata"]
            name = _RANDOM.sub("", meta["name"]) if path.endswith("pods") else meta["name"]
            is_ending = "deletionTimestamp" in meta
            found[path, meta["tenant"], meta.get("namespace", ""), name, is_ending, *summarize(obj)] += 1
    return found


def is_settled(found: State) -> bool:
    """Whether nothing is terminating, and every workload has all its replicas."""
    for path, *rest in found:
        if rest[3]:
            return False
        if path.endswith(("deployments", "statefulsets")):
            wanted, status, _, _, is_seen = rest[4:]
            if not is_seen or status[:3] != (wanted, wanted, wanted):
                return False
        elif (path.endswith("jobs") and not rest[7]) or (path.endswith("networks") and rest[4] != "Ready"):
            return False
    return True


def settled(ring0: Caller) -> State:
    """Waits until the state is settled, and still the same a moment later: the last change may show in no
    status."""

    def steady() -> State | None:
        found = state(ring0)
        time.sleep(0.5)
        return found if is_settled(found) and state(ring0) == found else None

    found: State = wait_until(steady, seconds_max=120)
    return found


# The three runs


def perform(server: LocalServer, script: Script, between: Callable[[], None]) -> None:
    for step in script.steps:
        carry_out(server.system, step)
        between()


@cache
def calm(directory: Path, seed: int, count: int) -> State:
    with (
        LocalServer(directory / f"calm-{seed}") as server,
        LocalControllers(server, directory / f"calm-{seed}"),
        nodes(server),
    ):
        perform(server, Script(seed, count), lambda: None)
        return settled(server.system)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("converge")


def expect(server: LocalServer, wanted: State, log: Callable[[], str]) -> None:
    try:
        wait_until(lambda: state(server.system) == wanted, seconds_max=150)
    except AssertionError:
        there = state(server.system)
        pytest.fail(f"too much: {there - wanted}\nmissing: {wanted - there}\n{log()[-3000:]}")


SEEDS = [(1, 30), *(pytest.param(seed, 120, marks=pytest.mark.slow) for seed in range(2, 8))]


@pytest.mark.parametrize(("seed", "count"), SEEDS)
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_killed_and_cut_off(shared: Path, tmp_path: Path, seed: int, count: int) -> None:
    wanted = calm(shared, seed, count)
    chance = random.Random(seed)
    with (
        LocalServer(tmp_path / "server") as server,
        BadNetwork(server.address, seed) as network,
        nodes(server),
    ):
        through = tmp_path / "through.kubeconfig"
        text = server.admin_kubeconfig.read_text()
        through.write_text(text.replace(f":{server.address[1]}/", f":{network.port}/"))
        controllers = LocalControllers(server, tmp_path, *LEASE, kubeconfig=through)
        controllers.start()
        network.is_rough = True

        def harm() -> None:
            match chance.random():
                case luck if luck < 0.1:
                    controllers.kill()
                    controllers.start()
                case luck if luck < 0.25:
                    network.cut()
                case luck if luck < 0.5:
                    time.sleep(chance.random() * 0.3)

        try:
            perform(server, Script(seed, count), harm)
            network.is_rough = False
            expect(server, wanted, lambda: controllers.log)
        finally:
            controllers.stop()


@pytest.mark.parametrize(("seed", "count"), SEEDS)
@pytest.mark.timeout(600)
def test_lost_refused_and_expired(shared: Path, tmp_path: Path, seed: int, count: int) -> None:
    wanted = calm(shared, seed, count)
    faulty: list[FaultyTransport] = []

    def through(inner: Any) -> FaultyTransport:
        faulty.append(FaultyTransport(inner, random.Random(seed)))
        return faulty[0]

    with (
        LocalServer(tmp_path / "server") as server,
        nodes(server),
        RunningControllers(server.admin_kubeconfig, CONTROLLERS, through=through),
    ):
        faulty[0].odds = ROUGH
        perform(server, Script(seed, count), lambda: None)
        faulty[0].odds = Odds()
        expect(server, wanted, lambda: "")
