"""The book of wishes answers as if it had read everything anew."""

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.client.keys import HOME, ObjectKey, TenantKey
from alcove.controllers.ingress.host_index import HostHolders, IngressIndex
from alcove.network.ingress.claims import HostClaim, star_of
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend, IngressRule, PathType

HOSTS = ("a.example", "b.example", "*.example", "x.a.example")
TENANTS = (TenantId("blue"), TenantId("red"))


def wanted(*hosts: str) -> DesiredIngress:
    rules = tuple(IngressRule(host, "/", PathType.PREFIX, IngressBackend("web", 80)) for host in hosts)
    return DesiredIngress("2026", "u", "default", "i", "default", rules, None, ())


keys = st.builds(
    lambda tenant, name: ObjectKey(HOME, tenant, "default", name),
    st.sampled_from(TENANTS),
    st.sampled_from("xyz"),
)
wishes = st.one_of(
    st.none(), st.builds(lambda hosts: wanted(*hosts), st.lists(st.sampled_from(HOSTS), max_size=4))
)


@settings(deadline=None)
@given(st.lists(st.tuples(keys, wishes), max_size=30))
def test_whatever_came_before_it_knows_what_is(
    changes: list[tuple[ObjectKey, DesiredIngress | None]],
) -> None:
    index, now = IngressIndex(), dict[ObjectKey, DesiredIngress]()
    for key, wish in changes:
        index.put(key, wish)
        now.pop(key, None)
        if wish is not None:
            now[key] = wish
    for host in HOSTS:
        naming = {key for key, wish in now.items() if host in wish.hosts}
        under = {key for key, wish in now.items() if any(star_of(each) == host for each in wish.hosts)}
        assert index.wanting(host) == naming | under
        assert sorted(index.claims(host)) == sorted(HostClaim("2026", "u", key.tenant) for key in naming)
        for tenant in TENANTS:
            assert index.wants(TenantKey(HOME, tenant), host) == any(key.tenant == tenant for key in naming)
    for key in {key for key, _ in changes}:
        index.put(key, None)
    assert vars(index) == vars(IngressIndex()), "nothing is kept of what is gone"


def test_changed_holders_are_reported() -> None:
    blue, red = TENANTS
    holders = HostHolders()
    assert holders.put(blue, frozenset({"a", "b"})) == {"a", "b"}
    assert holders.put(blue, frozenset({"b", "c"})) == {"a", "c"}
    assert holders.put(red, frozenset({"b"})) == {"b"}
    assert holders.by_host == {"b": blue, "c": blue}, "noted for two, it is the first one's"
    assert holders.put(blue, frozenset()) == {"b", "c"}
    assert holders.of(blue) == frozenset()
