"""What revisions look like to kubectl, and to whoever finds them by their labels."""

import json

import pytest

from alcove.api.objects import Object
from alcove.client.resources import DAEMON_SETS, STATEFUL_SETS, Resource
from alcove.controllers.workloads import history

TEMPLATE: Object = {
    "spec": {"containers": [{"name": "c", "image": "v1"}], "initContainers": [{"name": "i"}]},
    "metadata": {"labels": {"app": "x"}},
}


def workload() -> Object:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "annotations": {"cause": "because"}}
    return {"metadata": metadata, "spec": {"template": TEMPLATE}}


@pytest.mark.parametrize(
    ("resource", "label"),
    [(DAEMON_SETS, "controller-revision-hash"), (STATEFUL_SETS, "controller.kubernetes.io/hash")],
)
def test_revisions_carry_their_hash_and_the_cause_of_the_change(resource: Resource, label: str) -> None:
    made = history.new_revision(resource, workload(), 1)["metadata"]
    digest = history.hash_of({"metadata": made})
    assert made["labels"] == {"app": "x", label: digest} and made["name"] == f"x-{digest}"
    assert made["annotations"] == {"cause": "because"}


def test_a_template_is_written_as_kubectl_writes_the_one_it_compares_with() -> None:
    data = json.dumps(history.data_of(workload()), separators=(",", ":"))
    assert data == (
        '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"x"}},"spec":{'
        '"containers":[{"image":"v1","name":"c","resources":{}}],'
        '"initContainers":[{"name":"i","resources":{}}]}}}}'
    )


def test_a_revision_of_before_is_still_the_templates() -> None:
    old = {"metadata": {"name": "x-1"}, "data": {"spec": {"template": {**TEMPLATE, "$patch": "replace"}}}}
    assert history.same_as(workload(), [old]) is old
