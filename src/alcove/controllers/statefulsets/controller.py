"""The shell around a stateful set's plans: revisions, claims, pods, status."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
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
from alcove.controllers.concurrency import together
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, ServerRefusal
from alcove.controllers.statefulsets import identity
from alcove.controllers.statefulsets import plan as plans
from alcove.controllers.terminating import is_place_missing, is_terminating
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
        self._lanes = TenantRequestLimits()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(STATEFUL_SETS, self._selectors))

    async def reconcile(self, key: ObjectKey) -> Result:
        desired = self._sets.get(key)
        if desired is None:
            return DONE
        owner = controller_refs.ControllerRefManager(
            self.client(key), key, STATEFUL_SETS, desired, self._selectors.get(key)
        )
        owned = await owner.claim(
            self._pods, lambda pod: identity.ordinal_of(desired, pod["metadata"]["name"]) is not None
        )
        if "deletionTimestamp" in desired["metadata"]:
            return DONE
        known = self._history.known(key, desired)
        update = await self._history.update(self.client(key), key, desired, known)
        names = {each["metadata"]["name"] for each in known}
        current = get(desired, "status", "currentRevision", default="")
        revisions = plans.StatefulSetRevisions(
            current if current in names else update["metadata"]["name"], update["metadata"]["name"]
        )
        templates = {each["metadata"]["name"]: history.template_of(each) for each in [*known, update]}
        return await self._advance(key, desired, owned, revisions, templates)

    async def _advance(
        self,
        key: ObjectKey,
        desired: Object,
        owned: list[Object],
        revisions: plans.StatefulSetRevisions,
        templates: dict[str, Object],
    ) -> Result:
        now = self.clock()
        await self._keep_claims(key, desired, owned)
        next_ = plans.plan(desired, owned, revisions, now)
        await self._write(key, desired, plans.status(desired, owned, revisions, now))
        await self._delete(key, desired, next_.delete)
        await self._create(key, desired, next_.create[:BURST_MAX], templates)
        used = {labels(pod).get(identity.REVISION, "") for pod in owned}
        used |= {revisions.current, revisions.update}
        await self._history.forget(self.client(key), key, desired, used)
        if len(next_.create) > BURST_MAX:
            return Result(after_seconds=0)
        min_ready = desired["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(owned, min_ready, now))

    # Pods

    async def _create(
        self, key: ObjectKey, desired: Object, steps: Sequence[plans.CreatePod], templates: dict[str, Object]
    ) -> None:
        async def create(step: plans.CreatePod) -> Object:
            await self._make_claims(key, desired, step.ordinal)
            pod = identity.pod(desired, templates[step.revision], step.revision, step.ordinal)
            made = await self.client(key).create(key.tenant, PODS, pod, namespace=key.namespace)
            self._tell(key, desired, "create", pod["metadata"]["name"])
            return made

        made = await slow_start(self._lanes.of(key.tenant_key), steps, create)
        error = made.error
        if error is None or (isinstance(error, Forbidden) and is_terminating(error)):
            return
        if not isinstance(error, ApiError) or is_place_missing(error):
            raise error
        name = identity.pod_name(desired, steps[len(made.objects)].ordinal)
        self._tell(key, desired, "create", name, error)
        raise ServerRefusal(error.message) from error

    async def _delete(self, key: ObjectKey, desired: Object, surplus: Sequence[Object]) -> None:
        async def delete(pod: Object) -> Object:
            if await self._delete_one(key, PODS, pod):
                self._tell(key, desired, "delete", pod["metadata"]["name"])
            return pod

        deleted = await slow_start(self._lanes.of(key.tenant_key), surplus, delete)
        if deleted.error is not None:
            raise deleted.error

    async def _delete_one(self, key: ObjectKey, what: Resource, obj: Object) -> bool:
        metadata = obj["metadata"]
        try:
            await self.client(key).delete(
                key.tenant, what, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
            )
        except NotFound:
            return False
        return True

    def _tell(
        self, key: ObjectKey, desired: Object, verb: str, name: str, error: ApiError | None = None
    ) -> None:
        """As users of stateful sets know it: `create Pod web-0 in StatefulSet web successful`."""
        what = f"{verb} Pod {name} in StatefulSet {key.name}"
        if error is None:
            self.events.normal(key.plane, desired, f"Successful{verb.title()}", f"{what} successful")
        else:
            message = f"{what} failed error: {error.message}"
            self.events.warning(key.plane, desired, f"Failed{verb.title()}", message)

    # Claims

    async def _make_claims(self, key: ObjectKey, desired: Object, ordinal: int) -> None:
        for claim in identity.claims(desired, ordinal):
            if key.of(claim["metadata"]["name"]) in self._claims:
                continue
            try:
                await self.client(key).create(key.tenant, PERSISTENT_VOLUME_CLAIMS, claim)
            except AlreadyExists:
                pass

    async def _keep_claims(self, key: ObjectKey, desired: Object, owned: Sequence[Object]) -> None:
        """Claims belong to whom the retention policy says, before their pods may go."""
        if not identity.claim_templates(desired):
            return
        there = plans.by_ordinal(desired, owned)
        gone = {id(pod) for pod in plans.condemned(desired, there)}
        await together(
            self._keep_claim(
                key,
                desired,
                identity.claim_name(desired, template, ordinal),
                pod if id(pod) in gone else None,
            )
            for ordinal, pod in there.items()
            for template in identity.claim_templates(desired)
        )

    async def _keep_claim(self, key: ObjectKey, desired: Object, name: str, condemned: Object | None) -> None:
        claim = self._claims.get(key.of(name))
        if claim is None:
            return
        there = claim["metadata"].get("ownerReferences") or []
        owners = identity.claim_owners(desired, condemned, there)
        if owners == there:
            return
        patch = {"metadata": {"ownerReferences": owners or None}}
        patch["metadata"]["resourceVersion"] = claim["metadata"]["resourceVersion"]
        await self.client(key).patch(
            key.tenant, PERSISTENT_VOLUME_CLAIMS, name, patch, namespace=key.namespace, kind=Patch.MERGE
        )

    # Status

    async def _write(self, key: ObjectKey, desired: Object, status: Object) -> None:
        if status != desired.get("status"):
            desired["status"] = status
            changed = await self.client(key).update(key.tenant, STATEFUL_SETS, desired, subresource="status")
            desired["metadata"] = changed["metadata"]
