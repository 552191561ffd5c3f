"""A deployment's replica sets: the new one and the old ones, their revisions and annotations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from alcove.api import objects
from alcove.api.objects import Object, get
from alcove.api.validation import same
from alcove.client.resources import DEPLOYMENTS
from alcove.controllers.workloads.controller_refs import reference
from alcove.controllers.workloads.templates import template_hash

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
    }
)
"""Annotations that are not copied to replica sets."""
_HISTORY_LENGTH_MAX = 2000
_INTEGER_MAX = 2**63 - 1


class DeploymentReplicaSets(Struct, frozen=True):
    """All replica sets of a deployment; `old` is sorted from oldest to newest."""

    new: Object | None
    old: list[Object]

    @property
    def all(self) -> list[Object]:
        return [*self.old, self.new] if self.new is not None else self.old


def sort_sets(deployment: Object, owned: Iterable[Object]) -> DeploymentReplicaSets:
    """The new set is the one with the deployment's template; if there are several, the oldest."""
    by_age = sorted(owned, key=age)
    desired = deployment["spec"]["template"]
    new = next((each for each in by_age if same(plain_template(each), desired)), None)
    return DeploymentReplicaSets(new, [each for each in by_age if each is not new])


def age(obj: Object) -> tuple[str, str]:
    """A sort key that puts the oldest first."""
    return obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]


def plain_template(replica_set: Object) -> Object:
    """The set's template without the `pod-template-hash` label, to compare with the deployment's."""
    template: Object = replica_set["spec"].get("template") or {}
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def number(obj: Object) -> int:
    """An object's revision; 0 if it has no valid one."""
    return _integer(objects.annotations(obj).get(REVISION, "")) or 0


def next_number(old: Sequence[Object]) -> int:
    return max((number(each) for each in old), default=0) + 1


def annotated(replica_set: Object, name: str) -> int | None:
    return _integer(objects.annotations(replica_set).get(name, ""))


def _integer(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_INTEGER_MAX))
    return int(text) if is_number and int(text) <= _INTEGER_MAX else None


def sizes(replicas: int, surge: int) -> dict[str, str]:
    """The annotations with the deployment's size and maximum size."""
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge)}


def new_set(deployment: Object, revision: int, replicas: int, surge: int) -> Object:
    """The replica set for the deployment's template, to be created."""
    spec = deployment["spec"]
    digest = template_hash(spec["template"], get(deployment, "status", "collisionCount", default=0))
    template = _with_label(spec["template"], digest)
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    replica_set: Any = {
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{digest}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
            "annotations": {
                **passed_on(deployment),
                REVISION: str(revision),
                **sizes(spec.get("replicas", 1), surge),
            },
            "ownerReferences": [reference(DEPLOYMENTS, deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }
    if spec.get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    return replica_set  # type: ignore[no-any-return]


def _with_label(template: Object, digest: str) -> Object:
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: digest}
    return {**template, "metadata": {**metadata, "labels": labels}}


def passed_on(deployment: Object) -> dict[str, str]:
    return {key: value for key, value in objects.annotations(deployment).items() if key not in _NOT_COPIED}


def new_annotations(deployment: Object, new: Object, revision: int, surge: int) -> dict[str, str]:
    """The desired annotations of the new set; equal to the current ones if nothing has to change.

    A set that becomes the new one again (a rollback) gets the next revision; its earlier revisions are listed
    in its revision-history annotation.
    """
    existing = objects.annotations(new)
    desired = {**existing, **passed_on(deployment), **sizes(deployment["spec"].get("replicas", 1), surge)}
    before = number(new)
    if before < revision:
        desired[REVISION] = str(revision)
        if before:
            history = [*filter(None, existing.get(HISTORY, "").split(",")), str(before)]
            while len(",".join(history)) > _HISTORY_LENGTH_MAX:
                history.pop(0)
            desired[HISTORY] = ",".join(history)
    return desired


def beyond_history_limit(deployment: Object, old: Sequence[Object]) -> list[Object]:
    """Old sets without pods beyond the history limit, those with the lowest revisions."""
    limit = deployment["spec"].get("revisionHistoryLimit", 10)
    candidates = sorted(
        (each for each in old if "deletionTimestamp" not in each["metadata"]),
        key=lambda each: (number(each), age(each)),
    )
    surplus = candidates[: max(0, len(candidates) - limit)]
    return [each for each in surplus if _is_idle(each)]


def _is_idle(replica_set: Object) -> bool:
    status = replica_set.get("status") or {}
    return bool(
        not status.get("replicas")
        and not replica_set["spec"].get("replicas")
        and replica_set["metadata"].get("generation", 0) <= status.get("observedGeneration", 0)
    )
