"""ControllerRevisions: the template history of stateful sets and daemon sets, for updates and rollbacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from alcove.api import objects
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.objects import Object, get
from alcove.api.validation import same
from alcove.client.client import Client
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, STATEFUL_SETS, Resource
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import ServerRefusal, controller_of
from alcove.controllers.workloads.controller_refs import reference
from alcove.controllers.workloads.templates import template_hash

HASH_LABEL = "controller.kubernetes.io/hash"
POD_LABEL = "controller-revision-hash"
"""The revision of a pod: for a daemon set the revision's hash, for a stateful set its name."""
_HASH_LABELS = {DAEMON_SETS: POD_LABEL, STATEFUL_SETS: HASH_LABEL}


def data_of(workload: Object) -> Object:
    """The data of a revision: a patch that restores the template.

    In the same form as Go serializes it, because kubectl's rollbacks compare it byte by byte.
    """
    template = workload["spec"]["template"]
    spec = dict(template.get("spec") or {})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [{"resources": {}, **container} for container in spec[field]]
    return {"spec": {"template": _sorted({**template, "spec": spec, "$patch": "replace"})}}


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return {field: _sorted(value[field]) for field in sorted(value)} if isinstance(value, dict) else value


def template_of(revision: Object) -> Object:
    template: Object = get(revision, "data", "spec", "template", default={})
    return {field: value for field, value in template.items() if field != "$patch"}


def same_as(workload: Object, revisions: Iterable[Object]) -> Object | None:
    """The newest revision with the workload's template."""
    desired = data_of(workload)
    matching = [each for each in revisions if same(each.get("data"), desired)]
    return max(matching, key=number, default=None)


def hash_of(revision: Object) -> str:
    return str(revision["metadata"]["name"].rpartition("-")[2])


def number(revision: Object) -> int:
    return int(revision.get("revision") or 0)


def next_number(revisions: Iterable[Object]) -> int:
    return max((number(each) for each in revisions), default=0) + 1


def new_revision(resource: Resource, workload: Object, revision: int) -> Object:
    collisions = get(workload, "status", "collisionCount", default=0)
    digest = template_hash(workload["spec"]["template"], collisions)
    template_labels = get(workload, "spec", "template", "metadata", "labels", default={})
    return {
        "metadata": {
            "name": f"{workload['metadata']['name']}-{digest}",
            "namespace": workload["metadata"]["namespace"],
            "labels": {**template_labels, _HASH_LABELS[resource]: digest},
            # Includes the change-cause annotation, which `kubectl rollout history` shows.
            "annotations": dict(objects.annotations(workload)),
            "ownerReferences": [reference(resource, workload)],
        },
        "data": data_of(workload),
        "revision": revision,
    }


def beyond_history_limit(workload: Object, revisions: Sequence[Object], used: set[str]) -> list[Object]:
    """The oldest unused revisions beyond the history limit."""
    idle = sorted((each for each in revisions if each["metadata"]["name"] not in used), key=number)
    return idle[: max(0, len(idle) - workload["spec"].get("revisionHistoryLimit", 10))]


class History:
    """Reads and writes the revisions of the workloads of one resource."""

    def __init__(self, resource: Resource, revisions: Mirror) -> None:
        """The mirror must have the index `controller`."""
        self._resource = resource
        self._revisions = revisions

    def known(self, key: ObjectKey, workload: Object) -> list[Object]:
        revisions = self._revisions.find("controller", key.plane, key.tenant, workload["metadata"]["uid"])
        return [each for each in revisions if each["metadata"]["namespace"] == key.namespace]

    async def update(
        self, client: Client, key: ObjectKey, workload: Object, revisions: list[Object]
    ) -> Object:
        """The revision of the workload's template, created if needed; a reused one gets the highest
        number."""
        existing = same_as(workload, revisions)
        if existing is None:
            return await self._new(client, key, workload, next_number(revisions))
        others = [each for each in revisions if each is not existing]
        if others and number(existing) < next_number(others):
            existing["revision"] = next_number(others)
            return await client.update(key.tenant, CONTROLLER_REVISIONS, existing)
        return existing

    async def _new(self, client: Client, key: ObjectKey, workload: Object, number_: int) -> Object:
        revision = new_revision(self._resource, workload, number_)
        try:
            return await client.create(key.tenant, CONTROLLER_REVISIONS, revision)
        except AlreadyExists as error:
            name = revision["metadata"]["name"]
            existing = await client.get(key.tenant, CONTROLLER_REVISIONS, name, namespace=key.namespace)
            owner = controller_of(existing) or {}
            if owner.get("uid") == workload["metadata"]["uid"] and same_as(workload, [existing]):
                return existing
            # Hash collision with another template: the next attempt uses another name.
            collisions = get(workload, "status", "collisionCount", default=0) + 1
            patch = {"status": {"collisionCount": collisions}}
            await client.patch(
                key.tenant, self._resource, key.name, patch, namespace=key.namespace, subresource="status"
            )
            raise ServerRefusal(error.message) from error

    async def forget(self, client: Client, key: ObjectKey, workload: Object, used: set[str]) -> None:
        async def delete(revision: Object) -> None:
            metadata = revision["metadata"]
            try:
                await client.delete(
                    key.tenant,
                    CONTROLLER_REVISIONS,
                    metadata["name"],
                    namespace=key.namespace,
                    uid=metadata["uid"],
                )
            except NotFound:
                pass

        await gather_all(
            delete(each) for each in beyond_history_limit(workload, self.known(key, workload), used)
        )
