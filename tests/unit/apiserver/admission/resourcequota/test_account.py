"""Accounts: how a write changes a quota; the recorded usage always equals that of the existing objects."""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.quantity import ZERO
from alcove.api.resources import PODS, RESOURCE_QUOTAS, TENANTS
from alcove.apiserver.admission.resourcequota import account as accounts
from alcove.apiserver.admission.resourcequota import usage
from alcove.apiserver.admission.resourcequota.account import QuotaAccount, QuotaChange

ACME = TenantId("acme")
HARD = {"pods": "10", "requests.cpu": "4", "count/pods": "20"}


def quota(used: dict[str, str] | None = None, **spec: Any) -> QuotaAccount:
    metadata = {"name": "q", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    obj = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": HARD, **spec},
        "status": {"hard": HARD, "used": used or {}},
    }
    return accounts.of_quota(ACME, obj)


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {}, "spec": {"containers": containers, **spec}, "status": {}}


def as_text(amounts: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def test_a_new_an_old_and_a_changed_object() -> None:
    account = quota()
    assert as_text(accounts.difference(account, QuotaChange.of(PODS, None, pod()))) == {
        "pods": "1",
        "requests.cpu": "1",
        "count/pods": "1",
    }
    assert as_text(accounts.difference(account, QuotaChange.of(PODS, pod(), None))) == {
        "pods": "-1",
        "requests.cpu": "-1",
        "count/pods": "-1",
    }
    assert as_text(accounts.difference(account, QuotaChange.of(PODS, pod("1"), pod("3")))) == {
        "requests.cpu": "2"
    }
    assert accounts.difference(account, QuotaChange.of(PODS, pod(), pod())) == {}


def test_entering_and_leaving_a_scope() -> None:
    account = quota(scopes=["Terminating"])
    inside, outside = pod(activeDeadlineSeconds=1), pod()
    assert accounts.difference(account, QuotaChange.of(PODS, None, outside)) == {}
    entering = accounts.difference(account, QuotaChange.of(PODS, outside, inside))
    leaving = accounts.difference(account, QuotaChange.of(PODS, inside, outside))
    assert as_text(entering)["pods"] == "1" and as_text(leaving)["pods"] == "-1"


def test_the_message_of_an_exceeded_quota() -> None:
    account = quota({"pods": "10", "requests.cpu": "3500m", "count/pods": "10"})
    changes = accounts.difference(account, QuotaChange.of(PODS, None, pod()))
    assert accounts.exceeded(account, account.used, changes) == (
        "exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=10,requests.cpu=3500m, "
        "limited: pods=10,requests.cpu=4"
    )
    releasing = accounts.difference(account, QuotaChange.of(PODS, pod(), None))
    assert accounts.exceeded(account, account.used, releasing) == ""


def test_usage_never_becomes_negative() -> None:
    changes = accounts.difference(quota(), QuotaChange.of(PODS, pod(), None))
    assert set(accounts.added({}, changes).values()) == {ZERO}


def test_it_is_written_only_over_the_state_it_was_read_from() -> None:
    account = quota({"pods": "1", "requests.cpu": "1", "count/pods": "1"})
    op = account.with_used(account.used)
    assert op.expected == 7 and op.key == Key(RESOURCE_QUOTAS, ACME, "n", "q")
    assert op.body is not None
    assert orjson.loads(op.body)["status"] == {
        "hard": HARD,
        "used": {"pods": "1", "requests.cpu": "1", "count/pods": "1"},
    }


def test_a_tenants_account() -> None:
    metadata = {"name": "acme", "uid": "u", "resourceVersion": "9"}
    body = {"apiVersion": "v1", "kind": "Tenant", "metadata": metadata, "status": {"phase": "Active"}}
    assert accounts.of_tenant({**body, "spec": {}}) is None
    account = accounts.of_tenant({**body, "spec": {"quota": {"hard": {"count/pods": "5"}}}})
    assert account is not None and not account.is_whole and account.tracks(PODS)
    op = account.with_used(
        accounts.added({}, accounts.difference(account, QuotaChange.of(PODS, None, pod())))
    )
    assert op.key == Key(TENANTS, SYSTEM, "", "acme") and op.body is not None
    assert orjson.loads(op.body)["status"] == {"phase": "Active", "quota": {"used": {"count/pods": "1"}}}


pods = st.builds(
    lambda cpu, deadline, phase: {
        **pod(f"{cpu}m", **({"activeDeadlineSeconds": 5} if deadline else {})),
        "status": {"phase": phase},
    },
    st.integers(0, 5000),
    st.booleans(),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
)
scopes = st.sampled_from([[], ["Terminating"], ["NotTerminating"], ["BestEffort"], ["NotBestEffort"]])


@settings(max_examples=150, deadline=None)
@given(scopes, st.lists(st.tuples(st.sampled_from("abc"), st.none() | pods), max_size=25))
def test_the_recorded_usage_equals_that_of_the_existing_objects(
    scopes: list[str], writes: list[tuple[str, dict[str, Any] | None]]
) -> None:
    account = quota(scopes=scopes)
    there: dict[str, dict[str, Any]] = {}
    used: Any = {}
    for name, new in writes:
        change = QuotaChange.of(PODS, there.get(name), new)
        used = accounts.added(used, accounts.difference(account, change))
        if new is None:
            there.pop(name, None)
        else:
            there[name] = new
    expected = dict.fromkeys(HARD, ZERO)
    for obj in there.values():
        if account.matches(PODS, obj):
            for name, amount in usage.of(PODS, obj).items():
                if name in expected:
                    expected[name] = expected[name] + amount
    assert {name: used.get(name, ZERO) for name in HARD} == expected
