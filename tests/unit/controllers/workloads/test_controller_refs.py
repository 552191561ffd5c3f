"""What an owner holds, adopts and releases."""

from typing import Any

from alcove.api.objects import Object
from alcove.api.selectors import from_labels
from alcove.controllers.workloads.controller_refs import orphans, plan_ownership

SELECTOR = from_labels({"app": "web"})


def thing(name: str, *, namespace: str = "default", app: str = "web", **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"app": app}, **metadata}}


def names(things: list[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in things]


def test_matching_ones_are_held_and_others_released() -> None:
    claims = plan_ownership(thing("owner"), SELECTOR, [thing("a"), thing("b", app="db")], [])
    assert names(claims.owned) == ["a"] and names(claims.release) == ["b"] and not claims.adopt


def test_loose_ones_that_match_and_stay_are_adopted() -> None:
    loose = [
        thing("a"),
        thing("other", app="db"),
        thing("ending", deletionTimestamp="2024-01-01T00:00:00Z"),
        thing("elsewhere", namespace="kube-system"),
    ]
    assert names(plan_ownership(thing("owner"), SELECTOR, [], loose).adopt) == ["a"]


def test_a_reference_across_namespaces_does_not_count() -> None:
    claims = plan_ownership(thing("owner"), SELECTOR, [thing("a", namespace="kube-system")], [])
    assert not claims.owned and not claims.release


def test_an_owner_that_goes_neither_adopts_nor_releases() -> None:
    owner = thing("owner", deletionTimestamp="2024-01-01T00:00:00Z")
    claims = plan_ownership(owner, SELECTOR, [thing("a"), thing("b", app="db")], [thing("c")])
    assert names(claims.owned) == ["a"] and not claims.adopt and not claims.release


def test_orphans_are_found_by_namespace() -> None:
    assert list(orphans(thing("a"))) == ["default"]
    assert list(orphans(thing("a", ownerReferences=[{"uid": "u"}]))) == ["default"]
    assert list(orphans(thing("a", ownerReferences=[{"uid": "u", "controller": True}]))) == []
