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
from alcove.controllers.controller import DONE, Controller, Refused, Result, Setup
from alcove.controllers.statefulsets import identity
from alcove.controllers.statefulsets import plan as plans
from alcove.controllers.terminating import is_place_missing, is_terminating
from alcove.controllers.together import together
from alcove.controllers.workloads import history, owning, pods
from alcove.controllers.workloads.making import BURST_MAX, Lanes, slow_start
from alcove.controllers.workloads.selecting import Selectors, owner_or_selectors


class StatefulSets(Controller):
    name = "statefulset"
    resource = STATEFUL_SETS
    workers = 8

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._sets = self.mirror(STATEFUL_SETS)
        self._pods = self.mirror(PODS, owning.OWNING)
        revisions = self.mirror(CONTROLLER_REVISIONS, {"controller": controller_uid})
        self._history = history.History(STATEFUL_SETS, revisions)
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS)
        self._selectors = Selectors(self._sets)
        self._lanes = Lanes()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(STATEFUL_SETS, self._selectors))

    async def reconcile(self, key: ObjectKey) -> Result:
        wanted = self._sets.get(key)
        if wanted is None:
            return DONE
        owner = owning.Owner(self.client(key), key, STATEFUL_SETS, wanted, self._selectors.get(key))
        owned = await owner.claim(
            self._pods, lambda pod: identity.ordinal_of(wanted, pod["metadata"]["name"]) is not None
        )
        if "deletionTimestamp" in wanted["metadata"]:
            return DONE
        known = self._history.known(key, wanted)
        update = await self._history.update(self.client(key), key, wanted, known)
        names = {each["metadata"]["name"] for each in known}
        current = get(wanted, "status", "currentRevision", default="")
        revisions = plans.Revisions(
            current if current in names else update["metadata"]["name"], update["metadata"]["name"]
        )
        templates = {each["metadata"]["name"]: history.template_of(each) for each in [*known, update]}
        return await self._advance(key, wanted, owned, revisions, templates)

    async def _advance(
        self,
        key: ObjectKey,
        wanted: Object,
        owned: list[Object],
        revisions: plans.Revisions,
        templates: dict[str, Object],
    ) -> Result:
        now = self.clock()
        await self._keep_claims(key, wanted, owned)
        next_ = plans.plan(wanted, owned, revisions, now)
        await self._write(key, wanted, plans.status(wanted, owned, revisions, now))
        await self._delete(key, wanted, next_.delete)
        await self._create(key, wanted, next_.create[:BURST_MAX], templates)
        used = {labels(pod).get(identity.REVISION, "") for pod in owned}
        used |= {revisions.current, revisions.update}
        await self._history.forget(self.client(key), key, wanted, used)
        if len(next_.create) > BURST_MAX:
            return Result(after_seconds=0)
        min_ready = wanted["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(owned, min_ready, now))

    # Pods

    async def _create(
        self, key: ObjectKey, wanted: Object, steps: Sequence[plans.Create], templates: dict[str, Object]
    ) -> None:
        async def create(step: plans.Create) -> Object:
            await self._make_claims(key, wanted, step.ordinal)
            pod = identity.pod(wanted, templates[step.revision], step.revision, step.ordinal)
            made = await self.client(key).create(key.tenant, PODS, pod, namespace=key.namespace)
            self._tell(key, wanted, "create", pod["metadata"]["name"])
            return made

        made = await slow_start(self._lanes.of(key.space), steps, create)
        error = made.error
        if error is None or (isinstance(error, Forbidden) and is_terminating(error)):
            return
        if not isinstance(error, ApiError) or is_place_missing(error):
            raise error
        name = identity.pod_name(wanted, steps[len(made.objects)].ordinal)
        self._tell(key, wanted, "create", name, error)
        raise Refused(error.message) from error

    async def _delete(self, key: ObjectKey, wanted: Object, surplus: Sequence[Object]) -> None:
        async def delete(pod: Object) -> Object:
            if await self._delete_one(key, PODS, pod):
                self._tell(key, wanted, "delete", pod["metadata"]["name"])
            return pod

        deleted = await slow_start(self._lanes.of(key.space), surplus, delete)
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
        self, key: ObjectKey, wanted: Object, verb: str, name: str, error: ApiError | None = None
    ) -> None:
        """As users of stateful sets know it: `create Pod web-0 in StatefulSet web successful`."""
        what = f"{verb} Pod {name} in StatefulSet {key.name}"
        if error is None:
            self.events.normal(key.plane, wanted, f"Successful{verb.title()}", f"{what} successful")
        else:
            told = f"{what} failed error: {error.message}"
            self.events.warning(key.plane, wanted, f"Failed{verb.title()}", told)

    # Claims

    async def _make_claims(self, key: ObjectKey, wanted: Object, ordinal: int) -> None:
        for claim in identity.claims(wanted, ordinal):
            if key.of(claim["metadata"]["name"]) in self._claims:
                continue
            try:
                await self.client(key).create(key.tenant, PERSISTENT_VOLUME_CLAIMS, claim)
            except AlreadyExists:
                pass

    async def _keep_claims(self, key: ObjectKey, wanted: Object, owned: Sequence[Object]) -> None:
        """Claims belong to whom the retention policy says, before their pods may go."""
        if not identity.claim_templates(wanted):
            return
        there = plans.by_ordinal(wanted, owned)
        gone = {id(pod) for pod in plans.condemned(wanted, there)}
        await together(
            self._keep_claim(
                key, wanted, identity.claim_name(wanted, template, ordinal), pod if id(pod) in gone else None
            )
            for ordinal, pod in there.items()
            for template in identity.claim_templates(wanted)
        )

    async def _keep_claim(self, key: ObjectKey, wanted: Object, name: str, condemned: Object | None) -> None:
        claim = self._claims.get(key.of(name))
        if claim is None:
            return
        there = claim["metadata"].get("ownerReferences") or []
        owners = identity.claim_owners(wanted, condemned, there)
        if owners == there:
            return
        patch = {"metadata": {"ownerReferences": owners or None}}
        patch["metadata"]["resourceVersion"] = claim["metadata"]["resourceVersion"]
        await self.client(key).patch(
            key.tenant, PERSISTENT_VOLUME_CLAIMS, name, patch, namespace=key.namespace, kind=Patch.MERGE
        )

    # Status

    async def _write(self, key: ObjectKey, wanted: Object, status: Object) -> None:
        if status != wanted.get("status"):
            wanted["status"] = status
            changed = await self.client(key).update(key.tenant, STATEFUL_SETS, wanted, subresource="status")
            wanted["metadata"] = changed["metadata"]
