"""Everything is there more than once, and everything is killed once, while a tenant works through both API servers.

Nothing acknowledged is lost, no pod is bound twice, watches resume without a gap, and writes stop for a short time only.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct

from alcove.api.objects import Object
from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster, EtcdMember
from alcove.testing.load import MAPS, PODS, Follower, LoadClient, LoadWriter
from alcove.testing.replicated import CONTROLLERS, SCHEDULERS, ReplicatedCluster
from alcove.testing.server import Caller, LocalServer, wait_until

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking()),
]
log = logging.getLogger(__name__)
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LEASE_SECONDS = 2
REPLICAS = 3

SERVER_SECONDS_MAX = 8.0
"""Another API server is there: whoever turns to it goes on."""
ELECTION_SECONDS_MAX = 20.0
"""etcd's members wait one to two seconds before they elect another leader; a call that hangs is given up after ten."""
TAKEOVER_SECONDS_MAX = LEASE_SECONDS + 30.0
"""The lease runs out, the next one reads everything, and makes up for what was left."""


def config_map(name: str) -> Object:
    return {"metadata": {"name": name}, "data": {"of": name}}


def lone_pod(name: str) -> Object:
    container = {"name": "c", "image": "alcove/busybox", "resources": {"requests": {"cpu": "1m"}}}
    return {"metadata": {"name": name, "labels": {"by": "hand"}}, "spec": {"containers": [container]}}


def deployment(name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": lone_pod(name)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
    }


class Work(Struct, frozen=True):
    """A tenant at work, and every response that it got."""

    cluster: ReplicatedCluster
    tenant: Path
    writers: list[LoadWriter]
    maps: list[Follower]
    pods: list[Follower]

    def caller(self) -> Caller:
        return Caller(self.cluster.balanced(self.tenant))

    def refused_seconds(self, since: float) -> float:
        """The longest time in which no write of one writer was acknowledged."""
        now = time.monotonic()
        return max(writer.longest_gap(since, now) for writer in self.writers)


@contextmanager
def working(directory: Path) -> Iterator[Work]:
    with ExitStack() as stack:
        cluster = stack.enter_context(ReplicatedCluster(directory, lease_seconds=LEASE_SECONDS))
        tenant = cluster.make_tenant("acme")
        first, second = (LoadClient(cluster.at(number, tenant)) for number in range(2))
        writers = [
            LoadWriter("m1", [first, second], MAPS, config_map),
            LoadWriter("m2", [second, first], MAPS, config_map),
        ]
        maps = [Follower(doors, MAPS) for doors in ([first, second], [second, first])]
        pods = [Follower(doors, PODS) for doors in ([first, second], [second, first])]
        everybody: list[LoadWriter | Follower] = [*writers, *maps, *pods]
        for each in everybody:
            stack.callback(each.stop)
            each.start()
        yield Work(cluster, tenant, writers, maps, pods)


def deploy(work: Work, name: str, seconds_max: float) -> float:
    """A Deployment is asked for and runs; how long that took."""
    began = time.monotonic()
    caller = work.caller()
    answer = wait_until(lambda: _posted(caller, DEPLOYMENTS, deployment(name)), seconds_max)
    assert answer in (201, 409)
    wait_until(lambda: _ready(caller, name), seconds_max)
    caller.close()
    return time.monotonic() - began


def _posted(caller: Caller, path: str, body: Object) -> int:
    try:
        status = caller.post(path, body).status
    except OSError:
        return 0
    return status if status < 500 else 0


def _ready(caller: Caller, name: str) -> bool:
    try:
        answer = caller.get(f"{DEPLOYMENTS}/{name}")
    except OSError:
        return False
    return answer.status == 200 and (answer.json.get("status") or {}).get("readyReplicas") == REPLICAS


# What breaks: each kills something, and returns what brings it back.


def kill_server(work: Work, number: int) -> Callable[[], None]:
    server = work.cluster.servers[number]
    server.kill()
    return server.start


def kill_leading(work: Work, lease: str) -> Callable[[], None]:
    process = work.cluster.leading(lease)
    process.kill()
    return process.start


def kill_member(work: Work, *, leading: bool) -> Callable[[], None]:
    number = work.cluster.etcd.leader()
    if not leading:
        number = (number + 1) % len(work.cluster.etcd.members)
    work.cluster.etcd.members[number].kill()
    return partial(work.cluster.etcd.start, number)


class Fault(Struct, frozen=True):
    name: str
    kill: Callable[[Work], Callable[[], None]]
    refused_seconds_max: float


FAULTS = (
    Fault("apiserver", lambda work: kill_server(work, 0), SERVER_SECONDS_MAX),
    Fault("controllers", lambda work: kill_leading(work, CONTROLLERS), SERVER_SECONDS_MAX),
    Fault("scheduler", lambda work: kill_leading(work, SCHEDULERS), SERVER_SECONDS_MAX),
    Fault("etcd leader", lambda work: kill_member(work, leading=True), ELECTION_SECONDS_MAX),
)
MORE = (
    *FAULTS,
    Fault("other apiserver", lambda work: kill_server(work, 1), SERVER_SECONDS_MAX),
    Fault("etcd follower", lambda work: kill_member(work, leading=False), ELECTION_SECONDS_MAX),
)


def suffer(work: Work, fault: Fault, name: str) -> None:
    """One fault: what is asked for in its midst is done, and writes stop for no longer than allowed."""
    began = time.monotonic()
    mend = fault.kill(work)
    took = deploy(work, name, ELECTION_SECONDS_MAX + TAKEOVER_SECONDS_MAX)
    mend()
    for writer in work.writers:  # What its return breaks counts too.
        wanted = len(writer.times) + 20
        wait_until(lambda writer=writer, wanted=wanted: len(writer.times) > wanted, fault.refused_seconds_max)
    refused = work.refused_seconds(began)
    log.info("%s: no write for %.2f s, pods after %.2f s", fault.name, refused, took)
    assert refused < fault.refused_seconds_max, f"{fault.name}: no write for {refused:.2f} s"


def check(work: Work) -> None:
    """Every response that anybody got is true."""
    for each in work.writers:
        each.stop()
    caller = work.caller()
    wanted = {name: revision for writer in work.writers for name, revision in writer.acknowledged.items()}
    items = caller.get(MAPS).json["items"]
    found = {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in items}
    assert len(wanted) > 100, "too few writes for a result"
    assert {name: found.get(name) for name in wanted} == wanted
    check_watches(work, found)
    check_pods(work, caller)
    caller.close()


def check_watches(work: Work, found: dict[str, int]) -> None:
    newest = max(found.values())
    for follower in work.maps:
        wait_until(lambda follower=follower: follower.revision >= newest)
        follower.stop()
        seen = [revision for revision, _, _ in follower.events]
        assert seen == sorted(set(seen)), "events out of order, or twice"
        assert not follower.errors
        revisions = {event["metadata"]["name"]: revision for revision, _, event in follower.events}
        missed = {name for name in found if name not in revisions and name.startswith("m")}
        assert not missed, "a watch has a gap"
    assert any(follower.resumed for follower in work.maps), "no watch was broken: nothing was shown"


def check_pods(work: Work, caller: Caller) -> None:
    """Every Deployment has its pods, no more; no pod was ever at two nodes."""
    names = [each["metadata"]["name"] for each in caller.get(DEPLOYMENTS).json["items"]]
    wait_until(lambda: all(_ready(caller, name) for name in names))
    pods = caller.get(PODS).json["items"]
    assert len(pods) == REPLICAS * len(names)
    for follower in work.pods:
        wait_until(lambda follower=follower: len(places_of(follower)) >= len(pods))
        follower.stop()
        places = places_of(follower)
        assert not {uid for uid, nodes in places.items() if len(nodes) > 1}, "bound twice"
        made = {event["metadata"]["uid"] for _, kind, event in follower.events if kind == "ADDED"}
        assert len(made) == len(pods), "pods were made that nobody needed"


def places_of(follower: Follower) -> dict[str, set[str]]:
    """Nodes of the pods that were seen at any, by uid."""
    places: dict[str, set[str]] = {}
    for _, _, event in list(follower.events):
        if node := event["spec"].get("nodeName"):
            places.setdefault(event["metadata"]["uid"], set()).add(node)
    return places


@pytest.mark.timeout(300)
def test_one_of_each_dies_while_a_tenant_works(tmp_path: Path) -> None:
    with working(tmp_path) as work:
        deploy(work, "before", TAKEOVER_SECONDS_MAX)
        for number, fault in enumerate(FAULTS):
            suffer(work, fault, f"d{number}")
        check(work)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_each_dies_again_and_again(tmp_path: Path) -> None:
    with working(tmp_path) as work:
        for turn in range(5):
            for number, fault in enumerate(MORE):
                suffer(work, fault, f"d{turn}-{number}")
        check(work)


def test_a_server_that_was_cut_off_for_too_long_starts_anew(tmp_path: Path) -> None:
    """etcd forgot meanwhile what happened: who goes on with what it knows would show the past for good."""
    with (
        EtcdCluster(tmp_path / "etcd") as store,
        LocalServer(tmp_path / "cut-off", *store.options()) as server,
    ):
        (member,) = store.members
        server.system.post(MAPS, config_map("before"))
        member.kill()
        elsewhere = EtcdMember(member.name, member.folder)
        store.members.append(elsewhere)
        elsewhere.start([elsewhere])
        wait_until(elsewhere.is_healthy)
        with LocalServer(tmp_path / "other", "--etcd", elsewhere.endpoint) as other:
            other.system.post(MAPS, config_map("forgotten"))
            made = other.system.post(MAPS, config_map("meanwhile")).json
        elsewhere.compact(int(made["metadata"]["resourceVersion"]))
        elsewhere.kill()
        store.start(0)
        wait_until(lambda: not server.is_running)
        assert "compacted" in server.log and "Traceback" not in server.log
        server.stop()
        server.start()
        assert server.system.get(f"{MAPS}/meanwhile").status == 200
