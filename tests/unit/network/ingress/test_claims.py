"""The owner of a host name is the oldest claim, whatever a later one contains."""

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.network.ingress.claims import (
    HOSTS_ANNOTATION,
    HOSTS_MAX,
    HostClaim,
    entitled,
    holders,
    hosts_of,
    noted,
    star_of,
    winner,
)

BLUE, RED, GREEN = TenantId("blue"), TenantId("red"), TenantId("green")


def claim(tenant: TenantId, day: int) -> HostClaim:
    return HostClaim(f"2026-01-{day:02}T00:00:00Z", f"uid-{tenant}", tenant)


def test_the_oldest_claim_gets_an_unused_host() -> None:
    assert winner(None, [claim(RED, 2), claim(BLUE, 1), claim(GREEN, 3)]) == BLUE
    assert winner(None, []) is None


def test_who_has_a_name_keeps_it_while_he_wants_it() -> None:
    assert winner(RED, [claim(RED, 2), claim(BLUE, 1)]) == RED
    assert winner(RED, [claim(BLUE, 3), claim(GREEN, 2)]) == GREEN


tenants = st.sampled_from([BLUE, RED, GREEN])
claims = st.lists(st.builds(claim, tenants, st.integers(1, 28)), max_size=8)
HOSTS = ("a.example", "b.example", "*.example", "c.b.example", "*.b.example")


@settings(deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(HOSTS, claims)), st.dictionaries(st.sampled_from(HOSTS), tenants))
def test_a_name_is_one_tenants(asked: dict[str, list[HostClaim]], held: dict[str, TenantId]) -> None:
    won = {
        tenant: entitled(
            tenant,
            [host for host in HOSTS if any(each.tenant == tenant for each in asked[host])],
            held,
            asked,
        )
        for tenant in (BLUE, RED, GREEN)
    }
    for host in HOSTS:
        owners = [tenant for tenant, hosts in won.items() if host in hosts]
        assert len(owners) <= 1
        holder = held.get(host)
        if holder is not None and any(each.tenant == holder for each in asked[host]):
            assert owners == [holder], "nobody takes what somebody has and wants"


def test_names_under_anothers_star_are_not_free() -> None:
    asked = {"*.example": [claim(BLUE, 1)], "a.example": [claim(RED, 2)]}
    assert entitled(RED, ["a.example"], {}, asked) == frozenset(), "asked for later"
    assert entitled(RED, ["a.example"], {"*.example": BLUE}, asked) == frozenset(), "taken"
    assert entitled(RED, ["a.example"], {"*.example": RED}, asked) == {"a.example"}
    assert entitled(RED, ["a.example"], {"*.example": BLUE, "a.example": RED}, asked) == {"a.example"}, (
        "had before"
    )
    earlier = {"*.example": [claim(BLUE, 3)], "a.example": [claim(RED, 2)]}
    assert entitled(RED, ["a.example"], {}, earlier) == {"a.example"}
    assert entitled(BLUE, ["*.example"], {"a.example": RED}, {**earlier, "*.example": [claim(BLUE, 3)]}) == {
        "*.example"
    }


def test_one_name_too_many_is_the_new_one() -> None:
    names = [f"{number}.example" for number in range(HOSTS_MAX + 1)]
    asked = {name: [claim(BLUE, 1)] for name in names}
    held = dict.fromkeys(names[1:], BLUE)
    assert entitled(BLUE, names, held, asked) == frozenset(names[1:])


def test_what_is_noted_is_read_again() -> None:
    def tenant(name: str, created: str, hosts: set[str]) -> dict[str, object]:
        return {
            "metadata": {
                "name": name, "creationTimestamp": created, "annotations": {HOSTS_ANNOTATION: noted(hosts)},
            }
        }  # fmt: skip

    blue, red = tenant("blue", "2026-02-01", {"a.example", "*.b"}), tenant("red", "2026-01-01", {"a.example"})
    assert hosts_of(blue) == {"a.example", "*.b"}
    assert holders([blue, red]) == {"a.example": RED, "*.b": BLUE}
    assert holders([{"metadata": {"name": "bare"}}]) == {}


def test_the_star_of_a_name() -> None:
    assert star_of("a.b.example") == "*.b.example"
    assert star_of("*.b.example") == "*.b.example"
