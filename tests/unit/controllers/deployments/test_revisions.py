"""Which replica set is the new one, and how revisions are numbered and forgotten."""

from typing import Any

from alcove.api.objects import Object
from alcove.controllers.deployments.revisions import (
    HASH_LABEL,
    HISTORY,
    REVISION,
    beyond_history_limit,
    new_annotations,
    new_set,
    next_number,
    sort_sets,
)


def template(image: str) -> Object:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(image: str, **metadata: Any) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "u", **metadata},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "revisionHistoryLimit": 1,
        },
    }


def a_set(image: str, age: int, revision: int = 0) -> Object:
    made = new_set(deployment(image), revision, 0, 0)
    made["metadata"] |= {"creationTimestamp": str(age), "name": f"{image}-{age}"}
    return made


def test_a_new_set_is_found_again_by_its_template() -> None:
    made = new_set(deployment("v1"), 4, 3, 1)
    digest = made["metadata"]["labels"][HASH_LABEL]
    assert made["metadata"]["name"] == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "web", HASH_LABEL: digest}
    assert made["metadata"]["annotations"][REVISION] == "4"
    assert sort_sets(deployment("v1"), [made]).new is made
    assert sort_sets(deployment("v2"), [made]).new is None


def test_the_same_template_has_the_same_name_until_it_collides() -> None:
    one, two = new_set(deployment("v1"), 1, 3, 1), new_set(deployment("v1"), 9, 1, 0)
    assert one["metadata"]["name"] == two["metadata"]["name"]
    collided = {**deployment("v1"), "status": {"collisionCount": 1}}
    assert new_set(collided, 1, 3, 1)["metadata"]["name"] != one["metadata"]["name"]


def test_of_several_with_the_template_the_oldest_is_the_new_one() -> None:
    young, old = a_set("v1", 9), a_set("v1", 1)
    sets = sort_sets(deployment("v1"), [young, old, a_set("v0", 5)])
    assert sets.new is old and [each["metadata"]["name"] for each in sets.old] == ["v0-5", "v1-9"]


def test_rolling_back_gives_the_next_number_and_keeps_the_old_in_its_history() -> None:
    back, left = a_set("v1", 1, revision=1), a_set("v2", 2, revision=2)
    assert next_number([left]) == 3
    annotations = new_annotations(deployment("v1"), back, 3, 1)
    assert (annotations[REVISION], annotations[HISTORY]) == ("3", "1")
    back["metadata"]["annotations"] = annotations
    assert new_annotations(deployment("v1"), back, 3, 1) == annotations


def test_numbers_go_on_from_the_largest_that_kubernetes_can_count() -> None:
    assert next_number([a_set("v1", 1, revision=3546343826724305832)]) == 3546343826724305833
    assert next_number([a_set("v1", 1, revision=2**63)]) == 1


def test_annotations_are_passed_on_but_not_our_own() -> None:
    obj = deployment("v1", annotations={"team": "a", REVISION: "7"})
    annotations = new_annotations(obj, a_set("v1", 1, revision=9), 3, 1)
    assert annotations["team"] == "a" and annotations[REVISION] == "9"


def test_history_keeps_the_last_and_never_a_set_with_pods() -> None:
    old = [a_set("v1", 1, revision=1), a_set("v2", 2, revision=5), a_set("v3", 3, revision=3)]
    assert [each["metadata"]["name"] for each in beyond_history_limit(deployment("v4"), old)] == [
        "v1-1",
        "v3-3",
    ]
    old[0]["status"] = {"replicas": 1}
    assert [each["metadata"]["name"] for each in beyond_history_limit(deployment("v4"), old)] == ["v3-3"]
