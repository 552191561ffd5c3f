"""The StatefulSet controller: manages revisions, volume claims, pods and status."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.errors import AlreadyExists, ApiError, NotFound
from alcove.api.objects import Object, get, labels
from alcove.client.changes import controller_uid
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey
from alcove.client.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    Resource,
)
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, ServerRefusal
from alcove.controllers.statefulsets import identity
from alcove.controllers.statefulsets import plan as plans
from alcove.controllers.terminating import is_namespace_or_tenant_missing, is_terminating
from alcove.controllers.workloads import controller_refs, history, pods
from alcove.controllers.workloads.creation import BURST_MAX, TenantRequestLimits, slow_start
from alcove.controllers.workloads.selector_index import SelectorIndex, owner_or_selectors


class StatefulSetController(Controller):
    name = "statefulset"
    resource = STATEFUL_SETS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = self.mirror(STATEFUL_SETS)
        self._pods = self.mirror(PODS, controller_refs.OWNING)
        revisions = self.mirror(CONTROLLER_REVISIONS, {"controller": controller_uid})
        self._history = history.History(STATEFUL_SETS, revisions)
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS)
        self._selectors = SelectorIndex(self._sets)
        self._limits = TenantRequestLimits()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(STATEFUL_SETS, self._selectors))

    async def reconcile(self, key: ObjectKey) -> Result:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return DONE
        owner = controller_refs.ControllerRefManager(
            self.client(key), key, STATEFUL_SETS, stateful_set, self._selectors.get(key)
        )
        owned = await owner.claim(
            self._pods, lambda pod: identity.ordinal_of(stateful_set, pod["metadata"]["name"]) is not None
        )
        if "deletionTimestamp" in stateful_set["metadata"]:
            return DONE
        existing_revisions = self._history.known(key, stateful_set)
        update = await self._history.update(self.client(key), key, stateful_set, existing_revisions)
        names = {each["metadata"]["name"] for each in existing_revisions}
        current = get(stateful_set, "status", "currentRevision", default="")
        revisions = plans.StatefulSetRevisions(
            current if current in names else update["metadata"]["name"], update["metadata"]["name"]
        )
        templates = {
            each["metadata"]["name"]: history.template_of(each) for each in [*existing_revisions, update]
        }
        return await self._advance(key, stateful_set, owned, revisions, templates)

    async def _advance(
        self,
        key: ObjectKey,
        stateful_set: Object,
        owned: list[Object],
        revisions: plans.StatefulSetRevisions,
        templates: dict[str, Object],
    ) -> Result:
        now = self.clock()
        await self._update_claim_owners(key, stateful_set, owned)
        next_plan = plans.plan(stateful_set, owned, revisions, now)
        await self._write(key, stateful_set, plans.status(stateful_set, owned, revisions, now))
        await self._delete(key, stateful_set, next_plan.delete)
        await self._create(key, stateful_set, next_plan.create[:BURST_MAX], templates)
        used = {labels(pod).get(identity.REVISION, "") for pod in owned}
        used |= {revisions.current, revisions.update}
        await self._history.forget(self.client(key), key, stateful_set, used)
        if len(next_plan.create) > BURST_MAX:
            return Result(after_seconds=0)
        min_ready = stateful_set["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(owned, min_ready, now))

    # Pods

    async def _create(
        self,
        key: ObjectKey,
        stateful_set: Object,
        steps: Sequence[plans.CreatePod],
        templates: dict[str, Object],
    ) -> None:
        async def create(step: plans.CreatePod) -> Object:
            await self._create_claims(key, stateful_set, step.ordinal)
            pod = identity.pod(stateful_set, templates[step.revision], step.revision, step.ordinal)
            created = await self.client(key).create(key.tenant, PODS, pod, namespace=key.namespace)
            self._record_event(key, stateful_set, "create", pod["metadata"]["name"])
            return created

        created = await slow_start(self._limits.of(key.tenant_key), steps, create)
        error = created.error
        if error is None:
            return
        if not isinstance(error, ApiError) or is_namespace_or_tenant_missing(error) or is_terminating(error):
            raise error
        name = identity.pod_name(stateful_set, steps[len(created.objects)].ordinal)
        self._record_event(key, stateful_set, "create", name, error)
        raise ServerRefusal(error.message) from error

    async def _delete(self, key: ObjectKey, stateful_set: Object, surplus: Sequence[Object]) -> None:
        async def delete(pod: Object) -> Object:
            if await self._delete_one(key, PODS, pod):
                self._record_event(key, stateful_set, "delete", pod["metadata"]["name"])
            return pod

        result = await slow_start(self._limits.of(key.tenant_key), surplus, delete)
        if result.error is not None:
            raise result.error

    async def _delete_one(self, key: ObjectKey, resource: Resource, obj: Object) -> bool:
        metadata = obj["metadata"]
        try:
            await self.client(key).delete(
                key.tenant, resource, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
            )
        except NotFound:
            return False
        return True

    def _record_event(
        self, key: ObjectKey, stateful_set: Object, verb: str, name: str, error: ApiError | None = None
    ) -> None:
        """Records an event in Kubernetes' form: `create Pod web-0 in StatefulSet web successful`."""
        action = f"{verb} Pod {name} in StatefulSet {key.name}"
        if error is None:
            self.events.normal(key.plane, stateful_set, f"Successful{verb.title()}", f"{action} successful")
        else:
            message = f"{action} failed error: {error.message}"
            self.events.warning(key.plane, stateful_set, f"Failed{verb.title()}", message)

    # Claims

    async def _create_claims(self, key: ObjectKey, stateful_set: Object, ordinal: int) -> None:
        for claim in identity.claims(stateful_set, ordinal):
            if key.of(claim["metadata"]["name"]) in self._claims:
                continue
            try:
                await self.client(key).create(key.tenant, PERSISTENT_VOLUME_CLAIMS, claim)
            except AlreadyExists:
                pass

    async def _update_claim_owners(
        self, key: ObjectKey, stateful_set: Object, owned: Sequence[Object]
    ) -> None:
        """Sets the claims' owners according to the retention policy, before pods are deleted."""
        if not identity.claim_templates(stateful_set):
            return
        pods_by_ordinal = plans.by_ordinal(stateful_set, owned)
        condemned_ids = {id(pod) for pod in plans.condemned(stateful_set, pods_by_ordinal)}
        await gather_all(
            self._update_claim_owner(
                key,
                stateful_set,
                identity.claim_name(stateful_set, template, ordinal),
                pod if id(pod) in condemned_ids else None,
            )
            for ordinal, pod in pods_by_ordinal.items()
            for template in identity.claim_templates(stateful_set)
        )

    async def _update_claim_owner(
        self, key: ObjectKey, stateful_set: Object, name: str, condemned: Object | None
    ) -> None:
        claim = self._claims.get(key.of(name))
        if claim is None:
            return
        existing = claim["metadata"].get("ownerReferences") or []
        owners = identity.claim_owners(stateful_set, condemned, existing)
        if owners == existing:
            return
        patch = {"metadata": {"ownerReferences": owners or None}}
        patch["metadata"]["resourceVersion"] = claim["metadata"]["resourceVersion"]
        await self.client(key).patch(
            key.tenant, PERSISTENT_VOLUME_CLAIMS, name, patch, namespace=key.namespace, kind=Patch.MERGE
        )

    # Status

    async def _write(self, key: ObjectKey, stateful_set: Object, status: Object) -> None:
        if status != stateful_set.get("status"):
            stateful_set["status"] = status
            changed = await self.client(key).update(
                key.tenant, STATEFUL_SETS, stateful_set, subresource="status"
            )
            stateful_set["metadata"] = changed["metadata"]
