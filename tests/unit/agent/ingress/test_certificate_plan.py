"""Every tenant of a node has a share of its certificates."""

import pytest

from alcove.agent.ingress import certificate_plan
from alcove.agent.ingress.certificate_plan import plan
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressCertificate


def tenant(name: str) -> TenantKey:
    return TenantKey(HOME, TenantId(name))


def ingress(number: int, host: str) -> DesiredIngress:
    certificate = IngressCertificate(f"secret-{number}", (host,))
    return DesiredIngress(
        f"2026-{number:06}", f"u{number}", "default", "i", "default", (), None, (certificate,)
    )


def hosts_of(tenants: dict[str, int]) -> dict[TenantKey, list[DesiredIngress]]:
    """So many Ingresses of each, the youngest first, each with a host and a secret of its own."""
    return {
        tenant(name): [ingress(number, f"{number}.{name}.example") for number in reversed(range(count))]
        for name, count in tenants.items()
    }


def planned(desired: dict[TenantKey, list[DesiredIngress]]) -> dict[str, list[str]]:
    served = {
        key: frozenset(host for each in ingresses for host in each.hosts)
        for key, ingresses in desired.items()
    }
    found = plan(desired, served)
    assert len(found.by_host) + len(found.left_out) == sum(len(hosts) for hosts in served.values())
    return {key.tenant: [host for owner, host in found.by_host if owner == key.tenant] for key in desired}


def test_one_tenant_has_its_share_and_no_more() -> None:
    most = certificate_plan.CERTIFICATES_PER_TENANT_MAX
    found = planned(hosts_of({"greedy": most + 5, "quiet": 2}))
    assert found["greedy"] == [f"{number}.greedy.example" for number in range(most)], "the oldest ones"
    assert len(found["quiet"]) == 2


def test_together_tenants_get_what_a_node_holds_and_small_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_plan, "CERTIFICATES_MAX", 10)
    found = planned(hosts_of({"a": 100, "b": 100, "quiet": 2}))
    assert {name: len(hosts) for name, hosts in found.items()} == {"a": 4, "b": 4, "quiet": 2}


def test_hosts_that_are_not_the_tenants_need_no_certificate() -> None:
    desired = hosts_of({"blue": 2})
    found = plan(desired, {tenant("blue"): frozenset({"1.blue.example"})})
    assert [host for _, host in found.by_host] == ["1.blue.example"]
    assert not found.left_out


def test_hosts_that_share_a_secret_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_plan, "CERTIFICATES_PER_TENANT_MAX", 1)
    hosts = ("a.example", "b.example")
    made = DesiredIngress("2026", "u", "d", "i", "default", (), None, (IngressCertificate("one", hosts),))
    found = plan({tenant("blue"): [made]}, {tenant("blue"): frozenset(hosts)})
    assert (len(found.by_host), len(found.secrets), len(found.left_out)) == (2, 1, 0)
