"""A list and a watch from its revision agree, with objects that ring0 shares and with built-in ones."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from alcove.api import registry
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.resources import CONFIG_MAPS, CRDS
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.crds.sharing import LABEL
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import parse
from alcove.apiserver.rbac.defaults import CLUSTER_ROLES
from alcove.apiserver.resources.listing import list_objects
from alcove.apiserver.resources.watching import watch_objects
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.watch_hub import WatchHub
from alcove.http.messages import HttpRequest, HttpResponse, ResponseStream
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore

KINDS = registry.load()
ACME = TenantId("acme")
PATHS = {
    CRDS: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    CLUSTER_ROLES: "/apis/rbac.authorization.k8s.io/v1/clusterroles",
}
TO_VIEW = "rbac.authorization.k8s.io/aggregate-to-view"


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[ApiServerServices]:
    store = await SqliteStore.open(directory / "store.db")
    hub = WatchHub()
    try:
        async with Cache(store, hub.publish) as cache:
            # A watch from revision 0 would be one from any.
            await cache.reached(
                await store.write([WriteOp(Key(CONFIG_MAPS, ACME, "", "first"), b'{"metadata":{}}')])
            )
            kinds = CustomKinds(KINDS, cache, lambda: 0.0)
            yield ApiServerServices(store, cache, hub, KINDS, kinds, Chain(()), lambda: 0.0)
    finally:
        await store.close()


def call(resource: GroupResource, query: str, verb: str) -> ApiCall:
    path = PATHS[resource]
    made = ApiCall(HttpRequest("GET", path, query, {}), parse(path), 0.0)
    kind = KINDS.find(resource.group, "v1", resource.resource)
    assert kind is not None
    made.tenant, made.kind, made.verb = ACME, kind, verb
    made.identity = Identity(ACME, "someone")
    return made


class Mirror:
    """The state of a client that lists and then watches, as informers do."""

    paused = closed = False
    buffered_bytes = 0

    def __init__(self, services: ApiServerServices, resource: GroupResource, selector: str = "") -> None:
        self._services, self._resource, self._selector = services, resource, selector
        self.objects: dict[str, Object] = {}
        self.revision = ""
        self.events: list[tuple[str, str]] = []
        self.faults: list[tuple[str, str]] = []
        self._stream: ResponseStream | None = None

    def list(self) -> "Mirror":
        answer = list_objects(self._services, call(self._resource, f"labelSelector={self._selector}", "list"))
        assert isinstance(answer, HttpResponse) and isinstance(answer.body, bytes)
        listed = json.loads(answer.body)
        self.revision = listed["metadata"]["resourceVersion"]
        self.objects = {each["metadata"]["name"]: each for each in listed["items"]}
        return self

    def watch(self, query: str = "") -> "Mirror":
        since = query or f"resourceVersion={self.revision}"
        watching = call(self._resource, f"watch=true&{since}&labelSelector={self._selector}", "watch")
        answer = watch_objects(self._services, watching)
        assert isinstance(answer, HttpResponse)
        self._stream = cast(ResponseStream, answer.body)
        self._stream.start(self)
        return self

    def stop(self) -> None:
        assert self._stream is not None
        self._stream.stop()

    # messages.Writer

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            event = json.loads(line)
            self._take(event["type"], event["object"])

    def _take(self, type: str, obj: Object) -> None:
        """Must not raise: the cache that calls it would stop."""
        name = obj["metadata"].get("name", "")
        self.events.append((type, name))
        known = self.objects.get(name)
        is_same = known is not None and known["metadata"]["uid"] == obj["metadata"].get("uid")
        if type not in ("ADDED", "MODIFIED", "DELETED") or (type == "ADDED") != (known is None):
            self.faults.append((type, name))
        elif type != "ADDED" and not is_same:
            self.faults.append((f"{type} another", name))
        if type == "DELETED":
            self.objects.pop(name, None)
        else:
            self.objects[name] = obj

    def finish(self) -> None:
        pass

    def abort(self) -> None:
        raise AssertionError("a watch ends, or the client does")

    @property
    def seen(self) -> dict[str, Object]:
        """Built-in objects have no revision of their own; all others must be of the same one."""
        found = json.loads(json.dumps(self.objects))
        for obj in found.values():
            if obj["kind"] == "ClusterRole":
                del obj["metadata"]["resourceVersion"]
        return cast(dict[str, Object], found)


def body(kind: str, name: str, tenant: str, uid: str, labels: dict[str, str], **fields: Any) -> bytes:
    group = {"CustomResourceDefinition": "apiextensions.k8s.io", "ClusterRole": "rbac.authorization.k8s.io"}
    metadata = {"name": name, "tenant": tenant, "uid": uid, "labels": labels}
    return encode({"apiVersion": f"{group[kind]}/v1", "kind": kind, "metadata": metadata, **fields})


def random_crd(chance: random.Random) -> WriteOp:
    """A write of ring0's or the tenant's CRD of one of a few names."""
    tenant, name = chance.choice((SYSTEM, ACME)), chance.choice("abc")
    key = Key(CRDS, tenant, "", name)
    if chance.random() < 0.3:
        return WriteOp(key, None)
    labels = {"color": chance.choice(("red", "blue"))}
    if chance.random() < 0.6:
        labels[LABEL] = "forced"
    spec = {"number": chance.random()}
    return WriteOp(key, body("CustomResourceDefinition", name, tenant, f"{tenant}-{name}", labels, spec=spec))


def random_role(chance: random.Random) -> WriteOp:
    """A write of a role of the tenant's: a new one, one in place of a built-in one, one that is gathered."""
    name = chance.choice(("mine", "view", "system:aggregate-to-view", "cluster-admin"))
    key = Key(CLUSTER_ROLES, ACME, "", name)
    if chance.random() < 0.4:
        return WriteOp(key, None)
    labels = {"color": chance.choice(("red", "blue"))}
    if chance.random() < 0.5:
        labels[TO_VIEW] = "true"
    rules = [{"apiGroups": ["x"], "resources": [str(chance.random())], "verbs": ["get"]}]
    return WriteOp(key, body("ClusterRole", name, ACME, f"own-{name}", labels, rules=rules))


async def write(services: ApiServerServices, *ops: WriteOp) -> None:
    """Several at once: the cache takes them in one batch."""
    revisions = await asyncio.gather(*(services.store.write([op]) for op in ops))
    await services.cache.reached(Revision(max(revisions)))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
@pytest.mark.parametrize(("resource", "make"), [(CRDS, random_crd), (CLUSTER_ROLES, random_role)])
async def test_lists_and_watches_agree(
    tmp_path: Path, resource: GroupResource, make: Callable[[random.Random], WriteOp], seed: int
) -> None:
    chance = random.Random(seed)
    async with running(tmp_path) as services:
        selectors = ("", "color%3Dred")
        live = [Mirror(services, resource, each).watch("timeoutSeconds=60") for each in selectors]
        listed: list[Mirror] = []
        for _ in range(12):
            listed += [Mirror(services, resource, each).list() for each in selectors]
            live += [Mirror(services, resource, each).list().watch() for each in selectors]
            await write(services, *(make(chance) for _ in range(chance.choice((1, 1, 2, 5)))))
        late = [mirror.watch() for mirror in listed]
        wanted = {each: Mirror(services, resource, each).list().seen for each in selectors}
        while not services.hub.is_idle:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        for mirror in (*live, *late):
            mirror.stop()
            assert mirror.faults == [] and mirror.seen == wanted[mirror._selector]
        assert services.hub.count == 0


async def test_a_second_page_shows_what_the_first_would_have(tmp_path: Path) -> None:
    async def page(services: ApiServerServices, resource: GroupResource, query: str) -> Any:
        answer = list_objects(services, call(resource, query, "list"))
        response = answer if isinstance(answer, HttpResponse) else await answer
        assert isinstance(response.body, bytes)
        return json.loads(response.body)

    def names(listed: Any) -> list[str]:
        return [each["metadata"]["name"] for each in listed["items"]]

    async with running(tmp_path) as services:
        for tenant, name, labels in ((ACME, "a", {}), (SYSTEM, "b", {LABEL: "forced"}), (ACME, "b", {})):
            made = body("CustomResourceDefinition", name, tenant, f"{tenant}-{name}", labels)
            await write(services, WriteOp(Key(CRDS, tenant, "", name), made))
        for resource in PATHS:
            whole = names(await page(services, resource, ""))
            first = await page(services, resource, "limit=1")
            await write(services, WriteOp(Key(CRDS, SYSTEM, "", "b"), None))
            mine = body("ClusterRole", "mine", ACME, "m", {})
            await write(services, WriteOp(Key(CLUSTER_ROLES, ACME, "", "mine"), mine))
            rest = await page(services, resource, f"continue={first['metadata']['continue']}")
            assert names(first) + names(rest) == whole


async def test_a_shared_crd_replaces_the_tenants_own_and_gives_it_back(tmp_path: Path) -> None:
    def crd(tenant: TenantId, **labels: str) -> WriteOp:
        made = body("CustomResourceDefinition", "a", tenant, f"{tenant}-a", labels)
        return WriteOp(Key(CRDS, tenant, "", "a"), made)

    async with running(tmp_path) as services:
        mirror = Mirror(services, CRDS).list().watch()
        await write(services, crd(ACME))
        await write(services, crd(SYSTEM))
        assert mirror.events == [("ADDED", "a")]
        await write(services, crd(SYSTEM, **{LABEL: "forced"}))
        assert mirror.events[1:] == [("DELETED", "a"), ("ADDED", "a")]
        await write(services, crd(ACME, hidden="yes"))
        await write(services, crd(SYSTEM, **{LABEL: "forced", "more": "yes"}))
        assert mirror.events[3:] == [("MODIFIED", "a")]
        await write(services, WriteOp(Key(CRDS, SYSTEM, "", "a"), None))
        assert mirror.events[4:] == [("DELETED", "a"), ("ADDED", "a")]
        assert mirror.objects["a"]["metadata"]["labels"] == {"hidden": "yes"}
        mirror.stop()


async def test_a_tenant_gets_no_events_of_unshared_ring0_objects(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        mirror = Mirror(services, CRDS).list().watch()
        made = body("CustomResourceDefinition", "secret", SYSTEM, "s", {})
        await write(services, WriteOp(Key(CRDS, SYSTEM, "", "secret"), made))
        await write(services, WriteOp(Key(CRDS, SYSTEM, "", "secret"), None))
        again = Mirror(services, CRDS)
        again.revision = mirror.revision
        again.watch()
        assert mirror.events == again.events == []


async def test_a_watch_of_an_aggregated_role_sends_changes_of_its_rules(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        mirror = Mirror(services, CLUSTER_ROLES).list()
        mirror.watch(f"resourceVersion={mirror.revision}&fieldSelector=metadata.name%3Dview")
        rules = [{"apiGroups": ["sea.example"], "resources": ["ships"], "verbs": ["get"]}]
        made = body("ClusterRole", "sailors", ACME, "s", {TO_VIEW: "true"}, rules=rules)
        await write(services, WriteOp(Key(CLUSTER_ROLES, ACME, "", "sailors"), made))
        assert ("MODIFIED", "view") in mirror.events and {name for _, name in mirror.events} == {"view"}
        assert "ships" in json.dumps(mirror.objects["view"]["rules"])
