"""Authorization: isolation of tenants, access of ring0, masters, caching, and the exact message of a denial."""

import asyncio
import threading
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.errors import Forbidden
from alcove.api.ids import ALL, SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import policy as policies
from alcove.apiserver.rbac.authorize import Access, Authorizer, NotCompiled, forbidden
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from alcove.apiserver.rbac.rules import compile_rules
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")
EVERYTHING = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
AUTHENTICATED = "system:authenticated"


def give(reader: MemoryReader, tenant: TenantId, user: str, rules: list[Object], namespace: str = "") -> None:
    name = f"{user}-{namespace}"
    reader.put(tenant, CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    binding: Object = {
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": user}],
    }
    reader.put(tenant, ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding)


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    give(reader, ACME, "admin", EVERYTHING)
    give(reader, OTHER, "admin", EVERYTHING)
    give(reader, SYSTEM, "operator", [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}])
    give(reader, SYSTEM, "keeper", EVERYTHING, namespace="default")
    return reader


ACCESSES = st.builds(
    Access,
    st.sampled_from(["get", "list", "create", "impersonate", "*"]),
    st.sampled_from([OTHER, SYSTEM, ALL, TenantId("nowhere"), TenantId("")]),
    st.sampled_from(["", "apps", "*"]),
    st.sampled_from(["", "pods", "tenants", "nodes", "*"]),
    st.sampled_from(["", "status"]),
    st.sampled_from(["", "default"]),
    st.sampled_from(["", "x"]),
    st.sampled_from(["", "/api", "/healthz", "/metrics"]),
)


@settings(deadline=None)
@given(ACCESSES, st.sampled_from([(), ("system:masters",), ("system:masters", "system:nodes")]))
def test_nobody_of_a_tenant_gets_anything_of_another(access: Access, groups: tuple[str, ...]) -> None:
    reader = MemoryReader()
    give(reader, ACME, "admin", EVERYTHING)
    give(reader, access.tenant, "admin", EVERYTHING)
    caller = Identity(ACME, "admin", (*groups, AUTHENTICATED))
    decision = Authorizer(reader).authorize(caller, access)
    assert not decision.allowed
    assert decision.reason == ""


def test_a_refusal_is_the_same_whether_or_not_the_other_tenant_exists(reader: MemoryReader) -> None:
    caller = Identity(ACME, "admin", (AUTHENTICATED,))
    messages = []
    for tenant in (OTHER, TenantId("nowhere")):
        with pytest.raises(Forbidden) as refusal:
            Authorizer(reader).require(caller, Access("get", tenant, "", "pods", "", "default", "x"))
        messages.append(refusal.value.message.replace(tenant, "T"))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("tenant", [SYSTEM, ACME, ALL])
def test_ring0_reaches_every_tenant_by_its_cluster_wide_rights(
    reader: MemoryReader, tenant: TenantId
) -> None:
    authorizer, operator = Authorizer(reader), Identity(SYSTEM, "operator")
    assert authorizer.authorize(operator, Access("list", tenant, "", "pods", namespace="default")).allowed
    assert not authorizer.authorize(
        operator, Access("delete", tenant, "", "pods", namespace="default")
    ).allowed


def test_ring0s_rights_in_a_namespace_stay_in_ring0(reader: MemoryReader) -> None:
    authorizer, keeper = Authorizer(reader), Identity(SYSTEM, "keeper")
    assert authorizer.authorize(keeper, Access("get", SYSTEM, "", "secrets", namespace="default")).allowed
    for tenant in (ACME, ALL):
        assert not authorizer.authorize(
            keeper, Access("get", tenant, "", "secrets", namespace="default")
        ).allowed
    assert authorizer.grants_for(keeper, SYSTEM, "default")
    assert not authorizer.grants_for(keeper, ACME, "default")


def test_masters_are_masters_of_their_own_tenant(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    boss, root = Identity(ACME, "boss", ("system:masters",)), Identity(SYSTEM, "root", ("system:masters",))
    anything = Access("delete", ACME, "x.io", "things", namespace="ns", name="n")
    assert authorizer.authorize(boss, anything).allowed
    assert authorizer.authorize(root, anything).allowed
    assert authorizer.authorize(root, Access("list", ALL, "", "secrets")).allowed


@pytest.mark.parametrize("path", ["/debug/pprof", "/logs", "/", "/apisomething", "/configz", "/tenants"])
def test_server_wide_paths_are_for_ring0_only(reader: MemoryReader, path: str) -> None:
    authorizer, access = Authorizer(reader), Access("get", ACME, path=path)
    for caller in (Identity(ACME, "admin"), Identity(ACME, "boss", ("system:masters",))):
        assert not authorizer.authorize(caller, access).allowed
    root = Identity(SYSTEM, "root", ("system:masters",))
    assert authorizer.authorize(root, Access("get", SYSTEM, path=path)).allowed


@pytest.mark.parametrize(
    "path",
    [
        *("/api", "/apis/apps/v1", "/metrics", "/openapi/v2"),
        *("/.well-known/openid-configuration", "/openid/v1/jwks"),
    ],
)
def test_a_tenants_own_paths_are_its_roles_business(reader: MemoryReader, path: str) -> None:
    assert Authorizer(reader).authorize(Identity(ACME, "admin"), Access("get", ACME, path=path)).allowed
    assert not Authorizer(reader).authorize(Identity(ACME, "nobody"), Access("get", ACME, path=path)).allowed


def test_a_changed_role_takes_effect_immediately(reader: MemoryReader) -> None:
    authorizer, ann = Authorizer(reader), Identity(ACME, "ann")
    access = Access("get", ACME, "", "pods", namespace="ns")
    assert not authorizer.authorize(ann, access).allowed
    give(reader, ACME, "ann", EVERYTHING, namespace="ns")
    assert authorizer.authorize(ann, access).allowed
    reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "ann-ns"}, "rules": []})
    assert not authorizer.authorize(ann, access).allowed
    give(reader, ACME, "ann", EVERYTHING)
    assert authorizer.authorize(ann, access).allowed
    reader.remove(ACME, CLUSTER_ROLE_BINDINGS, "", "ann-")
    assert not authorizer.authorize(ann, access).allowed


class CountingReader(MemoryReader):
    lists = 0

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        self.lists += 1
        return super().list(tenant, resource, namespace)


def test_a_repeated_question_is_answered_from_the_cache() -> None:
    reader = CountingReader()
    give(reader, ACME, "admin", EVERYTHING)
    authorizer, admin = Authorizer(reader), Identity(ACME, "admin")
    for name in ("a", "b", "c"):
        authorizer.authorize(admin, Access("get", ACME, "", "pods", "", "default", name))
    before = reader.lists
    for name in ("a", "d", "e"):
        assert authorizer.authorize(admin, Access("get", ACME, "", "pods", "", "default", name)).allowed
    assert reader.lists == before
    assert len(authorizer.policy(ACME).results) == 1


ANN = Identity(ACME, "ann")


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (
            Access("list", ACME, "", "namespaces"),
            'namespaces is forbidden: User "ann" cannot list resource "namespaces" in API group "" in the tenant "acme"',
        ),
        (
            Access("list", OTHER, "", "namespaces"),
            'namespaces is forbidden: User "ann" cannot list resource "namespaces" in API group "" in the tenant "other"',
        ),
        (
            Access("get", ACME, "", "pods", "", "default", "web"),
            'pods "web" is forbidden: User "ann" cannot get resource "pods" in API group "" in the namespace "default"',
        ),
        (
            Access("update", ACME, "apps", "deployments", "scale", "default", "web"),
            'deployments.apps "web" is forbidden: User "ann" cannot update resource "deployments/scale"'
            ' in API group "apps" in the namespace "default"',
        ),
        (
            Access("list", OTHER, "", "pods", "", "default"),
            'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"'
            ' in the tenant "other"',
        ),
        (Access("get", ACME, path="/metrics"), 'forbidden: User "ann" cannot get path "/metrics"'),
    ],
)
def test_the_message_of_a_forbidden_request(access: Access, message: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        Authorizer(MemoryReader()).require(ANN, access)
    assert refusal.value.message == message


def test_a_broken_binding_is_named_in_the_forbidden_message(reader: MemoryReader) -> None:
    give(reader, ACME, "ann", [])
    reader.remove(ACME, CLUSTER_ROLES, "", "ann-")
    with pytest.raises(Forbidden, match=r'in the tenant "acme": RBAC: clusterrole\.rbac.* "ann-" not found$'):
        Authorizer(reader).require(ANN, Access("list", ACME, "", "pods"))


def test_the_details_of_a_refusal_name_the_object() -> None:
    details = forbidden(ANN, Access("get", ACME, "apps", "deployments", "", "ns", "web")).details
    assert details is not None
    assert (details.name, details.group, details.kind) == ("web", "apps", "deployments")


def many_rules(**more: list[str]) -> list[Object]:
    return [
        {"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"], **more} for number in range(1_500)
    ]


async def in_thread(_tenant: TenantId, compute: Callable[[], None]) -> None:
    await asyncio.to_thread(compute)


async def test_large_roles_are_not_compiled_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def noted(raws: Iterable[Object] | None) -> object:
        rules = compile_rules(raws)
        if len(rules) > 1_000:
            threads.append(threading.get_ident())
        return rules

    monkeypatch.setattr(policies, "compile_rules", noted)
    reader = MemoryReader()
    give(reader, ACME, "ann", many_rules())
    authorizer, ann = Authorizer(reader), Identity(ACME, "ann")
    access = Access("get", ACME, "", "r7")
    for _ in range(2):
        with pytest.raises(NotCompiled):
            authorizer.require(ann, access, now=True)
        await authorizer.compile(ACME, in_thread)
        assert authorizer.require(ann, access, now=True).allowed
        give(
            reader, ACME, "bob", EVERYTHING
        )  # What is large and did not change is compiled again in a thread, too.
    assert threads and threading.get_ident() not in threads


async def test_a_right_in_large_roles_that_is_taken_away_is_gone_at_the_next_request() -> None:
    reader = MemoryReader()
    give(reader, ACME, "ann", many_rules())
    authorizer, ann = Authorizer(reader), Identity(ACME, "ann")
    access = Access("get", ACME, "", "r7")
    await authorizer.compile(ACME, in_thread)
    assert authorizer.allows(ann, access)
    reader.remove(ACME, CLUSTER_ROLE_BINDINGS, "", "ann-")
    with pytest.raises(NotCompiled):
        authorizer.authorize(ann, access, now=True)
    await authorizer.compile(ACME, in_thread)
    assert not authorizer.allows(ann, access)
    # Whoever does not ask for the newest roles gets those of the last compilation, without waiting.
    give(reader, ACME, "ann", many_rules())
    assert not authorizer.allows(ann, access)


async def test_a_compilation_that_began_earlier_does_not_replace_a_later_one() -> None:
    reader = MemoryReader()
    give(reader, ACME, "ann", many_rules())
    authorizer, ann = Authorizer(reader), Identity(ACME, "ann")
    delayed: list[Callable[[], None]] = []

    async def delay(_tenant: TenantId, compute: Callable[[], None]) -> None:
        delayed.append(compute)

    await authorizer.compile(ACME, delay)
    reader.remove(ACME, CLUSTER_ROLE_BINDINGS, "", "ann-")
    await authorizer.compile(ACME, in_thread)
    delayed[0]()
    assert not authorizer.allows(ann, Access("get", ACME, "", "r7"))
