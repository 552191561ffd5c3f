"""Which service a request is routed to, by tables."""

import pytest

from alcove.agent.ingress.routing_table import (
    HOSTS_PER_TENANT_MAX,
    IngressTarget,
    RoutingTable,
    TenantIngresses,
    compiled,
    served_hosts,
)
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend, IngressRule, PathType
from alcove.testing.ingress import granting

BLUE, RED = TenantKey(HOME, TenantId("blue")), TenantKey(HOME, TenantId("red"))
RING0 = TenantKey(HOME, SYSTEM)


def ingress(
    *rules: tuple[str, str, PathType, str], fallback: str = "", created: str = "2026-01-01", name: str = "i"
) -> DesiredIngress:
    return DesiredIngress(
        created=created, uid=f"uid-{name}", namespace="default", name=name, network="default",
        rules=tuple(IngressRule(host, path, kind, IngressBackend(service, 80)) for host, path, kind, service in rules),
        fallback=IngressBackend(fallback, 80) if fallback else None, certificates=(),
    )  # fmt: skip


def tenant(tenant_key: TenantKey, *ingresses: DesiredIngress) -> TenantIngresses:
    """Every service is found, at an address that identifies it."""
    backends = {rule.backend for each in ingresses for rule in each.rules}
    backends |= {each.fallback for each in ingresses if each.fallback is not None}
    targets = {
        ("default", "default", backend): IngressTarget(tenant_key, "default", ((backend.service, 80),))
        for backend in backends
    }
    return TenantIngresses(tenant_key, ingresses, targets)


def found(table: RoutingTable, host: str, path: str) -> str:
    target = table.find(host, path)
    return f"{target.tenant_key.tenant}:{target.addresses[0][0]}" if target else "-"


EXACT, PREFIX = PathType.EXACT, PathType.PREFIX
PATHS = (
    # rule's path, its type, asked for, matches: as the Kubernetes documentation has it
    ("/", PREFIX, "/", True),
    ("/", PREFIX, "/any/path", True),
    ("/foo", EXACT, "/foo", True),
    ("/foo", EXACT, "/bar", False),
    ("/foo", EXACT, "/foo/", False),
    ("/foo/", EXACT, "/foo", False),
    ("/foo", PREFIX, "/foo", True),
    ("/foo", PREFIX, "/foo/", True),
    ("/foo/", PREFIX, "/foo", True),
    ("/foo/", PREFIX, "/foo/", True),
    ("/aaa/bb", PREFIX, "/aaa/bbb", False),
    ("/aaa/bbb", PREFIX, "/aaa/bbb", True),
    ("/aaa/bbb/", PREFIX, "/aaa/bbb", True),
    ("/aaa/bbb", PREFIX, "/aaa/bbb/", True),
    ("/aaa/bbb", PREFIX, "/aaa/bbb/ccc", True),
    ("/aaa/bbb", PREFIX, "/aaa/bbbxyz", False),
    ("/Foo", PREFIX, "/foo", False),
)


@pytest.mark.parametrize(("path", "kind", "asked", "matches"), PATHS)
def test_a_path_matches(path: str, kind: PathType, asked: str, matches: bool) -> None:
    table = compiled(
        [tenant(BLUE, ingress(("a.example", path, kind, "web")))], granting({"a.example": BLUE.tenant})
    )
    assert (found(table, "a.example", asked) == "blue:web") is matches


def test_the_longest_path_counts_and_exact_before_prefix() -> None:
    rules = (
        ("a.example", "/", PREFIX, "root"),
        ("a.example", "/x/y", PREFIX, "deep"),
        ("a.example", "/x", PREFIX, "x"),
    )
    exact = ("a.example", "/x", EXACT, "exactly")
    table = compiled([tenant(BLUE, ingress(*rules, exact))], granting({"a.example": BLUE.tenant}))
    asked = {"/": "root", "/other": "root", "/x": "exactly", "/x/": "x", "/x/z": "x", "/x/y/z": "deep"}
    assert {path: found(table, "a.example", path) for path in asked} == {
        path: f"blue:{service}" for path, service in asked.items()
    }


HOSTS = (
    # rule's host, asked for, matches: a star is one label
    ("*.foo.com", "bar.foo.com", True),
    ("*.foo.com", "baz.bar.foo.com", False),
    ("*.foo.com", "foo.com", False),
    ("a.foo.com", "A.Foo.Com", True),
    ("a.foo.com", "b.foo.com", False),
)


@pytest.mark.parametrize(("host", "asked", "matches"), HOSTS)
def test_a_host_matches(host: str, asked: str, matches: bool) -> None:
    table = compiled([tenant(BLUE, ingress((host, "/", PREFIX, "web")))], granting({host: BLUE.tenant}))
    assert (found(table, asked, "/") == "blue:web") is matches


def test_a_name_is_found_before_one_with_a_star() -> None:
    rules = (("*.foo.com", "/", PREFIX, "star"), ("a.foo.com", "/a", PREFIX, "named"))
    held = {"*.foo.com": BLUE.tenant, "a.foo.com": BLUE.tenant}
    table = compiled([tenant(BLUE, ingress(*rules))], granting(held))
    assert found(table, "a.foo.com", "/a") == "blue:named"
    assert found(table, "a.foo.com", "/b") == "-", "the name's own paths, and no other's"
    assert found(table, "b.foo.com", "/b") == "blue:star"


def test_rules_of_another_tenant_for_a_host_are_not_used() -> None:
    blue = tenant(BLUE, ingress(("shared.example", "/", PREFIX, "mine")))
    red = tenant(
        RED, ingress(("shared.example", "/", PREFIX, "stolen"), ("shared.example", "/login", EXACT, "phish"))
    )
    for order in ([blue, red], [red, blue]):
        table = compiled(order, granting({"shared.example": BLUE.tenant}))
        assert found(table, "shared.example", "/login") == "blue:mine"
    assert found(compiled([red], granting({"shared.example": BLUE.tenant})), "shared.example", "/") == "-"
    assert found(compiled([red], granting({})), "shared.example", "/") == "-"


def test_rules_without_a_host_are_for_the_tenants_own_hosts() -> None:
    blue = tenant(
        BLUE, ingress(("a.example", "/a", PREFIX, "a"), ("", "/any", PREFIX, "any"), fallback="last")
    )
    red = tenant(RED, ingress(("b.example", "/b", PREFIX, "b"), ("", "/", PREFIX, "everything")))
    table = compiled([blue, red], granting({"a.example": BLUE.tenant, "b.example": RED.tenant}))
    assert found(table, "a.example", "/a") == "blue:a"
    assert found(table, "a.example", "/any/thing") == "blue:any"
    assert found(table, "a.example", "/else") == "blue:last"
    assert found(table, "b.example", "/else") == "red:everything"
    assert found(table, "unknown.example", "/") == "-"


def test_a_name_granted_to_another_tenant_is_not_served_by_a_wildcard_host() -> None:
    blue = tenant(BLUE, ingress(("*.example", "/", PREFIX, "star")))
    owners = granting({"*.example": BLUE.tenant, "bank.example": RED.tenant, "*.deep.example": RED.tenant})
    table = compiled([blue], owners)
    assert found(table, "other.example", "/") == "blue:star"
    assert found(table, "bank.example", "/") == "-", "although red serves nothing there"
    assert found(compiled([tenant(BLUE, ingress(("*.deep.example", "/", PREFIX, "x")))], owners),
                 "a.deep.example", "/") == "-"  # fmt: skip


def test_a_tenant_with_too_many_hosts_keeps_the_oldest() -> None:
    ingresses = [
        ingress((f"h{number}.example", "/", PREFIX, "web"), created=f"2026-{number:08}", name=str(number))
        for number in range(HOSTS_PER_TENANT_MAX + 2)
    ]
    owners = granting({"*.example": BLUE.tenant, "red.example": RED.tenant})
    red = tenant(RED, ingress(("red.example", "/", PREFIX, "web")))
    table = compiled([tenant(BLUE, *reversed(ingresses)), red], owners)
    assert found(table, f"h{HOSTS_PER_TENANT_MAX - 1}.example", "/") == "blue:web"
    assert found(table, f"h{HOSTS_PER_TENANT_MAX}.example", "/") == "-"
    assert found(table, "red.example", "/") == "red:web"
    _, surplus = served_hosts(BLUE.tenant, ingresses, owners)
    assert [host for _, host in surplus] == [f"h{HOSTS_PER_TENANT_MAX + n}.example" for n in (0, 1)]


def test_ungranted_hosts_are_ring0s() -> None:
    ring0 = tenant(RING0, ingress(("", "/", PREFIX, "sorry")))
    blue = tenant(BLUE, ingress(("a.example", "/a", PREFIX, "a")))
    table = compiled([blue, ring0], granting({"a.example": BLUE.tenant}))
    assert found(table, "unknown.example", "/") == "system:sorry"
    assert found(table, "a.example", "/else") == "-"


def test_of_the_same_path_the_older_ingress_counts() -> None:
    young = ingress(("a.example", "/", PREFIX, "young"), created="2026-02-01", name="young")
    old = ingress(("a.example", "/", PREFIX, "old"), created="2026-01-01", name="old")
    for order in ((young, old), (old, young)):
        table = compiled([tenant(BLUE, *order)], granting({"a.example": BLUE.tenant}))
        assert found(table, "a.example", "/") == "blue:old"


def test_a_service_that_is_not_there_is_found_without_addresses() -> None:
    bare = TenantIngresses(BLUE, (ingress(("a.example", "/", PREFIX, "gone")),), {})
    target = compiled([bare], granting({"a.example": BLUE.tenant})).find("a.example", "/")
    assert target is not None
    assert (target.addresses, target.description) == ((), "default/gone")
