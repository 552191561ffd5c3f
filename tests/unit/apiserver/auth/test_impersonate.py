"""Impersonation: each header needs its permission, and no header leads to another tenant."""

import pytest

from alcove.api.errors import BadRequest, Forbidden
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth.impersonate import impersonate
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import defaults
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")
AUTHENTICATED = "system:authenticated"
BOSS = Identity(ACME, "boss", ("system:masters", AUTHENTICATED))
ROOT = Identity(SYSTEM, "root", ("system:masters", AUTHENTICATED))


def world(tenant: TenantId, *rules: Object) -> Authorizer:
    """Where `helper` of `tenant` holds `rules`."""
    reader = MemoryReader()
    reader.put(tenant, defaults.CLUSTER_ROLES, {"metadata": {"name": "r"}, "rules": list(rules)})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "helper"}],
    }
    reader.put(tenant, defaults.CLUSTER_ROLE_BINDINGS, binding)
    return Authorizer(reader)


def rule(resources: str, names: str = "", group: str = "") -> Object:
    found: Object = {"verbs": ["impersonate"], "apiGroups": [group], "resources": resources.split()}
    return {**found, "resourceNames": names.split()} if names else found


def test_without_headers_the_caller_stays() -> None:
    headers = [("Accept", "*/*"), ("Authorization", "Bearer x")]
    assert impersonate(BOSS, headers, world(ACME)) is BOSS


def test_all_impersonation_headers_together() -> None:
    headers = [
        ("Impersonate-User", "ann"),
        ("impersonate-group", "dev"),
        ("IMPERSONATE-GROUP", "ops"),
        ("Impersonate-Uid", "u1"),
        ("Impersonate-Extra-Scopes", "view"),
        ("Impersonate-Extra-Scopes", "edit"),
        ("Impersonate-Extra-acme.com%2Fproject", "p"),
    ]
    found = impersonate(BOSS, headers, world(ACME))
    assert found == Identity(
        ACME,
        "ann",
        ("dev", "ops", AUTHENTICATED),
        "u1",
        {"scopes": ("view", "edit"), "acme.com/project": ("p",)},
    )


def test_a_service_account_has_its_own_groups() -> None:
    found = impersonate(BOSS, [("Impersonate-User", "system:serviceaccount:ns:ci")], world(ACME))
    assert found.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED)


def test_the_callers_own_groups_are_left_behind() -> None:
    assert impersonate(BOSS, [("Impersonate-User", "ann")], world(ACME)).groups == (AUTHENTICATED,)


def test_anonymous_is_not_authenticated() -> None:
    found = impersonate(BOSS, [("Impersonate-User", "system:anonymous")], world(ACME))
    assert found.groups == ("system:unauthenticated",)


HELPER = Identity(ACME, "helper", (AUTHENTICATED,))
ALLOWED = [
    ([("impersonate-user", "ann")], rule("users", "ann")),
    ([("impersonate-user", "system:serviceaccount:ns:ci")], rule("serviceaccounts", "ci")),
    ([("impersonate-user", "ann"), ("impersonate-group", "dev")], rule("users groups")),
]


@pytest.mark.parametrize(("headers", "right"), ALLOWED)
def test_the_permission_is_sufficient(headers: list[tuple[str, str]], right: Object) -> None:
    assert impersonate(HELPER, headers, world(ACME, right)).tenant == ACME


@pytest.mark.parametrize(
    ("headers", "rights", "message"),
    [
        ([("impersonate-user", "ann")], [], 'users "ann" is forbidden: User "helper" cannot impersonate'),
        ([("impersonate-user", "bob")], [rule("users", "ann")], 'users "bob" is forbidden'),
        (
            [("impersonate-user", "ann"), ("impersonate-group", "system:masters")],
            [rule("users"), rule("groups", "dev")],
            'groups "system:masters" is forbidden',
        ),
        (
            [("impersonate-user", "system:serviceaccount:ns:ci")],
            [rule("users")],
            'serviceaccounts "ci" is forbidden: .* in the namespace "ns"',
        ),
        ([("impersonate-user", "ann"), ("impersonate-uid", "u")], [rule("users")], "uids"),
        (
            [("impersonate-user", "ann"), ("impersonate-extra-scopes", "x")],
            [rule("users"), rule("userextras/other", group="authentication.k8s.io")],
            'cannot impersonate resource "userextras/scopes" in API group "authentication.k8s.io"',
        ),
    ],
)
def test_a_missing_permission_is_forbidden(
    headers: list[tuple[str, str]], rights: list[Object], message: str
) -> None:
    with pytest.raises(Forbidden, match=message):
        impersonate(HELPER, headers, world(ACME, *rights))


@pytest.mark.parametrize(
    "headers",
    [
        [("impersonate-group", "dev")],
        [("impersonate-uid", "u")],
        [("impersonate-extra-scopes", "x")],
        [("impersonate-tenant", "other")],
        [("impersonate-user", "")],
        [("impersonate-user", "ann"), ("impersonate-tenant", "all")],
        [("impersonate-user", "ann"), ("impersonate-tenant", "a/b")],
    ],
)
def test_headers_that_make_no_sense(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(BadRequest):
        impersonate(ROOT, headers, world(SYSTEM))


INTO_OTHER = [("impersonate-user", "ann"), ("impersonate-tenant", "other")]


def test_ring0_reaches_into_a_tenant() -> None:
    found = impersonate(ROOT, INTO_OTHER, world(SYSTEM))
    assert (found.tenant, found.user, found.groups) == ("other", "ann", (AUTHENTICATED,))


def test_ring0_needs_the_right_on_the_tenant_and_on_the_user() -> None:
    helper = Identity(SYSTEM, "helper", (AUTHENTICATED,))
    assert (
        impersonate(helper, INTO_OTHER, world(SYSTEM, rule("tenants", "other"), rule("users"))).tenant
        == OTHER
    )
    with pytest.raises(Forbidden, match='tenants "other" is forbidden'):
        impersonate(helper, INTO_OTHER, world(SYSTEM, rule("tenants", "acme"), rule("users")))
    with pytest.raises(Forbidden, match=r'users "ann" is forbidden: .* in the tenant "other"'):
        impersonate(helper, INTO_OTHER, world(SYSTEM, rule("tenants")))


@pytest.mark.parametrize("tenant", ["other", "system", "nowhere"])
def test_a_tenants_master_never_leaves_its_tenant(tenant: str) -> None:
    headers = [("impersonate-user", "root"), ("impersonate-tenant", tenant)]
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    for caller in (BOSS, HELPER):
        with pytest.raises(Forbidden) as refusal:
            impersonate(caller, headers, world(ACME, everything))
        assert refusal.value.message.startswith(f'tenants "{tenant}" is forbidden')


def test_a_tenants_caller_may_name_its_own_tenant() -> None:
    headers = [("impersonate-user", "ann"), ("impersonate-tenant", "acme")]
    assert impersonate(BOSS, headers, world(ACME)).tenant == ACME
