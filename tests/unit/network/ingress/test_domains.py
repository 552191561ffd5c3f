"""A host name belongs to the tenant that ring0 granted it to, and to ring0 if it granted it to nobody."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.network.ingress.domains import DomainGrants, domains_of, star_of

BLUE, RED, GREEN = TenantId("blue"), TenantId("red"), TenantId("green")
DOMAINS = ("a.example", "*.example", "b.a.example", "*.a.example", "example")
HOSTS = (*DOMAINS, "x.example", "x.a.example", "y.x.a.example", "elsewhere", "*.x.example")


def tenant(name: str, *domains: str, created: str = "2026-01-01T00:00:00Z") -> Object:
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"domains": list(domains)}}


def granted(*tenants: Object) -> DomainGrants:
    grants = DomainGrants()
    for each in tenants:
        grants.put(each)
    return grants


CASES = (
    # granted to blue, asked for, is blue's
    ("a.example", "a.example", True),
    ("a.example", "b.a.example", False),
    ("a.example", "*.a.example", False),
    ("a.example", "example", False),
    ("*.a.example", "x.a.example", True),
    ("*.a.example", "y.x.a.example", True),
    ("*.a.example", "*.a.example", True),
    ("*.a.example", "*.x.a.example", True),
    ("*.a.example", "a.example", False),
    ("*.a.example", "*.example", False),
    ("*.a.example", "xa.example", False),
    ("*.a.example", "", False),
    ("*.a.example", "x" * 250 + ".a.example", False),
)


@pytest.mark.parametrize(("domain", "host", "is_owned"), CASES)
def test_what_a_grant_covers(domain: str, host: str, is_owned: bool) -> None:
    assert granted(tenant("blue", domain)).owner(host) == (BLUE if is_owned else SYSTEM)


def test_the_most_specific_grant_decides() -> None:
    grants = granted(tenant("blue", "*.example"), tenant("red", "a.example", "*.deep.example"))
    owners = {
        host: grants.owner(host) for host in ("x.example", "a.example", "y.deep.example", "deep.example")
    }
    assert owners == {"x.example": BLUE, "a.example": RED, "y.deep.example": RED, "deep.example": BLUE}


def test_of_two_tenants_with_one_grant_the_older_has_it() -> None:
    old, young = tenant("red", "a.example", created="2025"), tenant("blue", "a.example", created="2026")
    for order in ((old, young), (young, old)):
        grants = granted(*order)
        assert grants.owner("a.example") == RED
        assert grants.shadowed(BLUE) == [("a.example", RED)]
        assert grants.shadowed(RED) == []
        assert grants.remove(RED) == {BLUE, RED, SYSTEM}
        assert grants.owner("a.example") == BLUE


tenants = st.builds(
    lambda name, domains, created: tenant(name, *domains, created=created),
    st.sampled_from(("blue", "red", "green", "system")),
    st.sets(st.sampled_from(DOMAINS)),
    st.sampled_from(("2025", "2026")),
)


@settings(deadline=None)
@given(st.lists(tenants, max_size=12))
def test_grants_that_changed_are_as_if_read_anew_and_all_who_notice_are_told(changes: list[Object]) -> None:
    grants, now = DomainGrants(), dict[str, Object]()
    for change in changes:
        before = {host: grants.owner(host) for host in HOSTS}
        affected = grants.put(change)
        now[change["metadata"]["name"]] = change
        anew = granted(*now.values())
        for host in HOSTS:
            owner = grants.owner(host)
            assert owner == anew.owner(host)
            if owner != before[host]:
                assert {owner, before[host]} <= affected
    for name in now:
        grants.remove(TenantId(name))
    assert vars(grants) == vars(DomainGrants()), "nothing is kept of what is gone"


def test_only_ring0_needs_no_grant() -> None:
    grants = granted(tenant("blue", "a.example"), tenant("red"))
    assert [grants.has_any(each) for each in (BLUE, RED, SYSTEM)] == [True, False, True]
    assert domains_of({"metadata": {"name": "bare"}}) == frozenset()


def test_the_wildcard_host_of_an_ingress_covers_one_label() -> None:
    assert star_of("a.b.example") == "*.b.example"
    assert star_of("*.b.example") == "*.b.example"
