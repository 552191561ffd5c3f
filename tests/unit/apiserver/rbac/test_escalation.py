"""The permissions that a grant lacks: a short message, and bounded work."""

import time

import pytest

from alcove.api.ids import TenantId
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import escalation
from alcove.apiserver.rbac.escalation import PAIRS_MAX, REPORTED_MAX, TooManyPairs
from alcove.apiserver.rbac.rules import PolicyRule

ANN = Identity(TenantId("acme"), "ann", ("dev", "system:authenticated"))


def rule(verbs: str, resources: str, names: str = "", groups: tuple[str, ...] = ("",)) -> PolicyRule:
    return PolicyRule(tuple(verbs.split()), groups, tuple(resources.split()), tuple(names.split()))


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ([rule("get list", "pods")], rule("get", "pods"), []),
        ([rule("get", "pods"), rule("list", "pods")], rule("get list", "pods"), []),
        ([rule("get", "pods")], rule("get list watch", "pods"), ["list watch pods"]),
        ([rule("*", "pods")], rule("*", "pods"), []),
        ([rule("get list create", "pods")], rule("*", "pods"), ["* pods"]),
        ([rule("get", "*")], rule("get", "pods pods/log"), []),
        ([rule("get", "*/log")], rule("get", "pods/log"), []),
        ([rule("get", "pods")], rule("get", "pods/log"), ["get pods/log"]),
        ([rule("get", "pods/log")], rule("get", "*/log"), ["get */log"]),
        ([rule("get", "pods")], rule("get", "*"), ["get *"]),
        ([rule("get", "pods")], rule("get", "pods", "a"), []),
        ([rule("get", "pods", "a b")], rule("get", "pods", "a"), []),
        ([rule("get", "pods", "a")], rule("get", "pods", "a b"), ["get pods b"]),
        ([rule("get", "pods", "a")], rule("get", "pods"), ["get pods"]),
        ([rule("get", "pods", groups=("*",))], rule("get", "pods", groups=("apps",)), []),
        ([rule("get", "pods")], rule("get", "pods", groups=("*",)), ["get pods"]),
        ([], rule("get", "pods services"), ["get pods", "get services"]),
    ],
)
def test_resources(held: list[PolicyRule], wanted: PolicyRule, missing: list[str]) -> None:
    found = escalation.missing(held, [wanted])
    assert [" ".join((*lack.verbs, *lack.resources, *lack.names)) for lack in found] == missing


@pytest.mark.parametrize(
    ("held", "wanted", "covered"),
    [("/api", "/api", True), ("/api*", "/api/v1", True), ("/api/*", "/api/v*", True), ("*", "*", True),
     ("/api", "/api/*", False), ("/api/v1*", "/api/*", False), ("/api", "*", False)],
)  # fmt: skip
def test_paths(held: str, wanted: str, covered: bool) -> None:
    lacking = escalation.missing([PolicyRule(("get",), urls=(held,))], [PolicyRule(("get",), urls=(wanted,))])
    assert (lacking == []) is covered


def test_the_message_of_a_forbidden_request() -> None:
    lacking = escalation.missing([], [rule("get list", "secrets"), PolicyRule(("get",), urls=("/metrics",))])
    assert escalation.refusal(ANN, lacking) == (
        'user "ann" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not'
        ' currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
        '\n{NonResourceURLs:["/metrics"], Verbs:["get"]}'
    )


def test_a_long_refusal_is_cut() -> None:
    wanted = rule("get", " ".join(f"r{n}" for n in range(REPORTED_MAX + 20)))
    messages = escalation.refusal(ANN, escalation.missing([], [wanted])).splitlines()
    assert len(messages) == 1 + REPORTED_MAX + 1
    assert messages[-1] == "and 20 more"


def test_a_role_made_to_be_multiplied_out_is_refused_quickly() -> None:
    many = tuple(f"x{n}" for n in range(1000))
    started = time.process_time()
    with pytest.raises(TooManyPairs, match=f"more than {PAIRS_MAX} combinations"):
        escalation.missing([rule("get", "pods")], [PolicyRule(many, many, many, many)])
    assert time.process_time() - started < 10
