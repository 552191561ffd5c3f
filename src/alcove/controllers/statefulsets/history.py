"""A stateful set's templates over time, as ControllerRevisions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.objects import Object, get
from alcove.api.validation import same
from alcove.client.resources import STATEFUL_SETS
from alcove.controllers.workloads.owning import reference
from alcove.controllers.workloads.templates import template_hash

HASH_LABEL = "controller.kubernetes.io/hash"


def data_of(stateful_set: Object) -> Object:
    """What a revision keeps: a patch that brings the template back."""
    return {"spec": {"template": {**stateful_set["spec"]["template"], "$patch": "replace"}}}


def template_of(revision: Object) -> Object:
    template: Object = get(revision, "data", "spec", "template", default={})
    return {field: value for field, value in template.items() if field != "$patch"}


def same_as(stateful_set: Object, revisions: Iterable[Object]) -> Object | None:
    """The newest revision with the set's template."""
    wanted = data_of(stateful_set)
    found = [each for each in revisions if same(each.get("data"), wanted)]
    return max(found, key=number, default=None)


def number(revision: Object) -> int:
    return int(revision.get("revision") or 0)


def next_number(revisions: Iterable[Object]) -> int:
    return max((number(each) for each in revisions), default=0) + 1


def new_revision(stateful_set: Object, revision: int) -> Object:
    collisions = get(stateful_set, "status", "collisionCount", default=0)
    digest = template_hash(stateful_set["spec"]["template"], collisions)
    own = get(stateful_set, "spec", "template", "metadata", "labels", default={})
    return {
        "metadata": {
            "name": f"{stateful_set['metadata']['name']}-{digest}",
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**own, HASH_LABEL: digest},
            "ownerReferences": [reference(STATEFUL_SETS, stateful_set)],
        },
        "data": data_of(stateful_set),
        "revision": revision,
    }


def outlived(stateful_set: Object, revisions: Sequence[Object], used: set[str]) -> list[Object]:
    """Revisions that nothing uses, beyond those to be kept, the oldest."""
    idle = sorted((each for each in revisions if each["metadata"]["name"] not in used), key=number)
    return idle[: max(0, len(idle) - stateful_set["spec"].get("revisionHistoryLimit", 10))]
