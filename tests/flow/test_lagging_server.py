"""Two API servers on one etcd, and the second receives late what the first wrote: it refuses nothing for that.

A relay between the second server and its etcd holds the events of watches back until the server has asked the store
how far it is behind. Without that question, each of these requests would be refused.
"""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import Struct

from alcove.api.objects import Object
from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster
from alcove.testing.etcd_relay import EtcdRelay
from alcove.testing.failover import SHARED_KEYS
from alcove.testing.server import Caller, LocalServer, ServerResponse

pytestmark = pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())

CORE, RBAC = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
HERE = f"{CORE}/namespaces/default"
MAPS = f"{HERE}/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SELF_REVIEW: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class Pair(Struct, frozen=True):
    first: LocalServer
    second: LocalServer
    relay: EtcdRelay

    def callers(self, user: str = "admin") -> tuple[Caller, Caller]:
        return self.first.as_tenant("acme", user), self.second.as_tenant("acme", user)

    def late(self, write: Callable[[], ServerResponse], ask: Callable[[], ServerResponse]) -> ServerResponse:
        """The second server's answer to `ask`, which it gets when the first has acknowledged `write`, and before it
        receives it."""
        # A read that names no revision: the second knows all that came before.
        assert self.second.system.get(f"{CORE}/namespaces/default").status == 200
        with self.relay.held(), ThreadPoolExecutor(1) as pool:
            written = write()
            assert written.status in (200, 201), written.body
            reads = self.relay.reads()
            answer = pool.submit(ask)
            while not answer.done() and not self.relay.wait_for_read(reads, 0.05):
                pass
            self.relay.release()
            return answer.result()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    one, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    with (
        EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster,
        LocalServer(one, *cluster.options()) as first,
        EtcdRelay(cluster.members[0].endpoint) as relay,
    ):
        (other / "pki").mkdir()
        for name in SHARED_KEYS:
            shutil.copy(one / "pki" / name, other / "pki" / name)
        first.make_tenant("acme")
        with LocalServer(other, "--etcd", relay.endpoint) as second:
            yield Pair(first, second, relay)


def named(name: str, **rest: object) -> Object:
    return {"metadata": {"name": name}, **rest}


def pod(name: str, **spec: object) -> Object:
    return named(name, spec={"containers": [{"name": "c", "image": "i"}], **spec})


def crd(group: str) -> Object:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": versions}
    return named(f"widgets.{group}", spec=spec)


def grant(first: Caller, name: str, user: str, verb: str, resource: str) -> ServerResponse:
    """A right, in one role and one binding; the answer to the binding."""
    rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
    assert first.post(f"{RBAC}/clusterroles", named(name, rules=[rule])).status == 201
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    return first.post(f"{RBAC}/clusterrolebindings", named(name, roleRef=reference, subjects=[subject]))


class Say(Struct, frozen=True):
    method: str
    path: str
    body: Object | None = None

    def to(self, caller: Caller) -> ServerResponse:
        if self.method == "PATCH":
            return caller.patch(self.path, self.body)
        return caller.request(self.method, self.path, self.body)


class Case(Struct, frozen=True):
    """What is written to the first server, and what is read from the second then. `before` is known to both."""

    name: str
    write: Say
    ask: Say
    status: int = 201
    before: tuple[Say, ...] = ()


def post(path: str, body: Object) -> Say:
    return Say("POST", path, body)


COUNTED, STRICT = f"{CORE}/namespaces/counted", f"{CORE}/namespaces/strict"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = f"{HERE}/persistentvolumeclaims"
LABEL = "pod-security.kubernetes.io/enforce"
LIMIT = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}


def claim(name: str, size: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return named(name, spec={**spec, "storageClassName": "grows"})


def policy(name: str) -> tuple[Say, ...]:
    """One that refuses config maps of the label `only` as long as its parameters are not there."""
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    ]
    match = {"resourceRules": rules, "objectSelector": {"matchLabels": {"only": name}}}
    spec = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "matchConstraints": match}
    spec |= {"validations": [{"expression": "params.data.allow == 'yes'"}]}
    params = {"name": name, "namespace": "default", "parameterNotFoundAction": "Deny"}
    bound = {"policyName": name, "validationActions": ["Deny"], "paramRef": params}
    where = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    return (post(f"{where}ies", named(name, spec=spec)), post(f"{where}ybindings", named(name, spec=bound)))


CASES = (
    Case(
        "namespace",
        post(f"{CORE}/namespaces", named("n1")),
        post(f"{CORE}/namespaces/n1/configmaps", named("m")),
    ),
    Case("CRD", post(CRDS, crd("a.example.com")), post("/apis/a.example.com/v1/widgets", named("w"))),
    Case("discovery of a CRD", post(CRDS, crd("b.example.com")), Say("GET", "/apis/b.example.com/v1"), 200),
    Case(
        "service account of a pod",
        post(f"{HERE}/serviceaccounts", named("robot")),
        post(f"{HERE}/pods", pod("by-robot", serviceAccountName="robot")),
    ),
    Case(
        "service account of a token",
        post(f"{HERE}/serviceaccounts", named("bearer")),
        post(f"{HERE}/serviceaccounts/bearer/token", {"spec": {"audiences": []}}),
    ),
    Case(
        "secret of a token",
        post(f"{HERE}/secrets", named("s")),
        post(
            f"{HERE}/serviceaccounts/default/token",
            {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}},
        ),
    ),
    Case(
        "priority class",
        post("/apis/scheduling.k8s.io/v1/priorityclasses", named("high", value=9)),
        post(f"{HERE}/pods", pod("prior", priorityClassName="high")),
    ),
    Case(
        "runtime class",
        post("/apis/node.k8s.io/v1/runtimeclasses", named("strong", handler="runsc")),
        post(f"{HERE}/pods", pod("strong", runtimeClassName="strong")),
    ),
    Case(
        "storage class",
        Say("PATCH", f"{STORAGE}/grows", {"allowVolumeExpansion": True}),
        Say("PATCH", f"{CLAIMS}/c", {"spec": claim("c", "2Gi")["spec"]}),
        200,
        (
            post(STORAGE, named("grows", provisioner="p")),
            post(CLAIMS, claim("c", "1Gi")),
            Say("PATCH", f"{CLAIMS}/c/status", {"status": {"phase": "Bound"}}),
        ),
    ),
    Case(
        "quota that was raised",
        Say("PATCH", f"{COUNTED}/resourcequotas/maps", {"spec": {"hard": {"configmaps": "5"}}}),
        post(f"{COUNTED}/configmaps", named("m")),
        before=(
            post(f"{CORE}/namespaces", named("counted")),
            post(f"{COUNTED}/resourcequotas", named("maps", spec={"hard": {"configmaps": "0"}})),
        ),
    ),
    Case(
        "limit that was lifted",
        Say("DELETE", f"{STRICT}/limitranges/small"),
        post(f"{STRICT}/persistentvolumeclaims", claim("big", "5Gi")),
        before=(
            post(f"{CORE}/namespaces", named("strict")),
            post(f"{STRICT}/limitranges", named("small", spec={"limits": [LIMIT]})),
        ),
    ),
    Case(
        "level of pod security",
        Say("PATCH", f"{CORE}/namespaces/safe", {"metadata": {"labels": {LABEL: "baseline"}}}),
        post(f"{CORE}/namespaces/safe/pods", pod("plain")),
        before=(
            post(f"{CORE}/namespaces", {"metadata": {"name": "safe", "labels": {LABEL: "restricted"}}}),
            post(f"{CORE}/namespaces/safe/serviceaccounts", named("default")),
        ),
    ),
    Case(
        "parameters of a policy",
        post(MAPS, named("asking", data={"allow": "yes"})),
        post(MAPS, {"metadata": {"name": "asked", "labels": {"only": "asking"}}}),
        before=policy("asking"),
    ),
    Case("patch", post(MAPS, named("patched")), Say("PATCH", f"{MAPS}/patched", {"data": {"k": "v"}}), 200),
    Case("delete", post(MAPS, named("deleted")), Say("DELETE", f"{MAPS}/deleted"), 200),
    Case(
        "name that is free again",
        Say("DELETE", f"{MAPS}/again"),
        post(MAPS, named("again")),
        before=(post(MAPS, named("again")),),
    ),
    Case(
        "eviction",
        post(f"{HERE}/pods", pod("evicted")),
        post(f"{HERE}/pods/evicted/eviction", named("evicted")),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_other_server_wrote_counts_at_once(pair: Pair, case: Case) -> None:
    first, second = pair.callers()
    for known in case.before:
        answer = known.to(first)
        assert answer.status in (200, 201), answer.body
    answer = pair.late(lambda: case.write.to(first), lambda: case.ask.to(second))
    assert answer.status == case.status, answer.body


def test_a_tenant_that_the_other_server_made_can_be_filled(pair: Pair) -> None:
    answer = pair.late(
        lambda: pair.first.system.post(f"{CORE}/tenants", named("late", spec={})),
        lambda: pair.second.system.post(f"{CORE}/tenants/late/namespaces", named("default")),
    )
    assert answer.status == 201, answer.body


def test_a_right_that_the_other_server_granted_can_be_used(pair: Pair) -> None:
    first, _ = pair.callers()
    _, bob = pair.callers("bob")
    assert bob.post(MAPS, named("by-bob")).status == 403
    answer = pair.late(
        lambda: grant(first, "maps", "bob", "create", "configmaps"), lambda: bob.post(MAPS, named("by-bob"))
    )
    assert answer.status == 201, answer.body


def test_a_right_to_impersonate_that_the_other_server_granted_can_be_used(pair: Pair) -> None:
    first, _ = pair.callers()
    _, bob = pair.callers("carol")

    def as_dave() -> ServerResponse:
        return bob.post(SELF_REVIEWS, SELF_REVIEW, impersonate_user="dave")

    assert as_dave().status == 403
    answer = pair.late(lambda: grant(first, "act", "carol", "impersonate", "users"), as_dave)
    assert answer.status == 201, answer.body


def test_a_review_knows_of_rights_that_the_other_server_granted(pair: Pair) -> None:
    first, second = pair.callers()
    asked = {
        "user": "erin",
        "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "default"},
    }
    answer = pair.late(
        lambda: grant(first, "secrets", "erin", "get", "secrets"),
        lambda: second.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": asked}),
    )
    assert answer.json["status"]["allowed"] is True, answer.body


def test_a_token_is_good_whose_account_the_other_server_made(pair: Pair) -> None:
    first, _ = pair.callers()
    tokens: list[str] = []

    def account() -> ServerResponse:
        assert first.post(f"{HERE}/serviceaccounts", named("new")).status == 201
        answer = first.post(f"{HERE}/serviceaccounts/new/token", {"spec": {"audiences": []}})
        tokens.append(answer.json["status"]["token"])
        return answer

    answer = pair.late(account, lambda: pair.second.anonymous(tokens[0]).post(SELF_REVIEWS, SELF_REVIEW))
    assert answer.status == 201, answer.body


def test_a_revision_that_the_other_server_gave_can_be_replaced(pair: Pair) -> None:
    first, second = pair.callers()
    first.post(MAPS, named("replaced"))
    seen: list[Object] = []

    def change() -> ServerResponse:
        answer = first.patch(f"{MAPS}/replaced", {"data": {"by": "first"}})
        seen.append(answer.json)
        return answer

    answer = pair.late(change, lambda: second.put(f"{MAPS}/replaced", {**seen[0], "data": {"by": "second"}}))
    assert answer.status == 200, answer.body


def test_a_write_that_seems_to_change_nothing_is_not_lost(pair: Pair) -> None:
    first, second = pair.callers()
    before = {"data": {"k": "before"}}
    first.post(MAPS, named("same", **before))
    answer = pair.late(
        lambda: first.patch(f"{MAPS}/same", {"data": {"k": "meanwhile"}}),
        lambda: second.patch(f"{MAPS}/same", before),
    )
    assert answer.status == 200
    assert first.get(f"{MAPS}/same").json["data"] == {"k": "before"}


def test_deleting_all_deletes_what_the_other_server_made(pair: Pair) -> None:
    first, second = pair.callers()
    first.post(f"{CORE}/namespaces", named("swept"))
    maps = f"{CORE}/namespaces/swept/configmaps"
    answer = pair.late(lambda: first.post(maps, named("m")), lambda: second.delete(maps))
    assert answer.status == 200
    assert first.get(maps).json["items"] == []


def test_a_fence_holds_by_a_lease_that_the_other_server_wrote(pair: Pair) -> None:
    first, second = pair.first.system, pair.second.system
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    answer = pair.late(
        lambda: first.post(leases, named("l", spec={"holderIdentity": "me"})),
        lambda: second.post(f"{CORE}/namespaces/kube-system/configmaps", named("f"), alcove_fence="l/me"),
    )
    assert answer.status == 201, answer.body


def test_nothing_is_made_in_a_namespace_that_the_other_server_is_ending(pair: Pair) -> None:
    """It would stay for ever, should the namespace be gone before this server receives its deletion."""
    first, second = pair.callers()
    first.post(f"{CORE}/namespaces", named("ending"))
    answer = pair.late(
        lambda: first.delete(f"{CORE}/namespaces/ending"),
        lambda: second.post(f"{CORE}/namespaces/ending/configmaps", named("m")),
    )
    assert (answer.status, answer.json["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


@pytest.mark.parametrize(
    ("name", "spec"), [("ending", {}), ("charged", {"quota": {"hard": {"count/namespaces": "9"}}})]
)
def test_nothing_is_made_in_a_tenant_that_the_other_server_is_ending(
    pair: Pair, name: str, spec: Object
) -> None:
    first, second = pair.first.system, pair.second.system
    assert first.post(f"{CORE}/tenants", named(name, spec=spec)).status == 201
    path = f"{CORE}/tenants/{name}/namespaces"
    assert second.post(path, named("before")).status == 201
    answer = pair.late(
        lambda: first.delete(f"{CORE}/tenants/{name}"), lambda: second.post(path, named("after"))
    )
    assert (answer.status, answer.json["details"]["causes"][0]["reason"]) == (403, "TenantTerminating")


def test_many_refusals_ask_the_store_together(pair: Pair) -> None:
    """However many ask for what is not there, the store is asked once at a time for all of them."""
    _, second = pair.callers()
    callers = [Caller(second.kubeconfig) for _ in range(16)]
    for caller in callers:
        assert caller.post(f"{CORE}/namespaces/none/configmaps", named("m")).status == 404
    with pair.relay.slowed(1.0), ThreadPoolExecutor(len(callers)) as pool:
        reads = pair.relay.reads()
        refused = [
            pool.submit(each.post, f"{CORE}/namespaces/none/configmaps", named("m")) for each in callers
        ]
        assert {each.result().status for each in refused} == {404}
        assert pair.relay.reads() - reads < len(callers) / 2
    for caller in callers:
        caller.close()
