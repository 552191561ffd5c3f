"""The plugin that calls a tenant's mutating webhooks: one after the other, each sees the changes of earlier
ones. The changed object is decoded, defaulted and completed as if a client had sent it.

A webhook with reinvocationPolicy IfNeeded is called once more if the object changed after its call; every
other plugin then runs once more as well (`chain`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, BadRequest, InternalError, Timeout, TooManyRequests
from alcove.api.fields import quote
from alcove.api.ids import GroupResource
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch import json as json_patch
from alcove.api.schema.decode import decode
from alcove.apiserver.admission.admission_objects import LOOKED_AT_ONCE
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.completion import complete, is_changeable
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.admission.webhooks import review_objects
from alcove.apiserver.admission.webhooks.caller import OUT_OF_TIME, PHASE_SECONDS_MAX, WebhookCaller
from alcove.apiserver.admission.webhooks.hooks import GROUP, MUTATING, Webhook, WebhookHooks, collect
from alcove.apiserver.admission.webhooks.review import WebhookVerdict
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.reader import CacheReader, ServedKinds


class ReinvocationState(Struct):
    """State that is state from the first run for the second."""

    asked: set[tuple[str, int]]
    """Webhooks that must be called again if the object changes after their call."""
    due: set[tuple[str, int]]
    """Webhooks that must be called again."""
    last: Object | None
    """The object after the last webhook."""

    def changed(self) -> None:
        self.due |= self.asked
        self.asked.clear()


class MutatingWebhooks(Plugin):
    def __init__(
        self, reader: CacheReader, kinds: ServedKinds, caller: WebhookCaller, threads: ComputeThreads
    ) -> None:
        self._kinds = kinds
        self._caller = caller
        self._threads = threads
        self._hooks: DerivedCache[WebhookHooks] = DerivedCache(
            reader, MUTATING, lambda tenant: collect(reader, MUTATING, tenant)
        )

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource.group != GROUP

    async def admit(self, attributes: Attributes) -> None:
        hooks = self._hooks.of(attributes.tenant)
        if not hooks:
            return
        relevant = hooks.about(review_objects.as_requested(attributes), self._kinds)
        if not relevant or self._caller.is_spared(attributes):
            return
        try:
            async with asyncio.timeout(PHASE_SECONDS_MAX):
                await self._run(relevant, attributes)
        except TimeoutError as error:
            raise Timeout(OUT_OF_TIME) from error

    async def _run(self, relevant: tuple[tuple[Webhook, Kind], ...], attributes: Attributes) -> None:
        state = _state(attributes)
        if attributes.is_reinvoked and state.last != attributes.obj:
            state.changed()
        for index, (hook, matched) in enumerate(relevant, 1):
            if not index % LOOKED_AT_ONCE:
                await asyncio.sleep(0)
            if attributes.is_reinvoked and hook.identity not in state.due:
                # No webhook is called for the first time in the second run.
                continue
            if await self._caller.matches(hook, review_objects.as_requested(attributes), matched):
                if await self._call(hook, attributes, matched):
                    state.changed()
                    attributes.reinvoke = True
                if hook.is_reinvoked:
                    state.asked.add(hook.identity)
        if attributes.reinvoke and attributes.obj is not None:
            encoded = orjson.dumps(attributes.obj)
            tenant = attributes.tenant
            state.last = await self._threads.for_size(tenant, len(encoded), lambda: orjson.loads(encoded))

    async def _call(self, hook: Webhook, attributes: Attributes, matched: Kind) -> bool:
        """Call the webhook. Returns whether it changed the object."""
        shown = await review_objects.show(attributes, matched)
        requested = review_objects.as_requested(attributes)
        try:
            result = await self._caller.ask(hook, requested, matched, shown, may_change=True)
        except WebhookError as error:
            self._caller.pardon(hook, attributes, error, "mutating")
            return False
        has_changed = False
        if result.patch:
            change = _Change(self._threads, hook, attributes, matched)
            has_changed = await change.apply(shown.obj, result)
        _annotate(hook, attributes, has_changed)
        return has_changed


def _state(attributes: Attributes) -> ReinvocationState:
    if not isinstance(attributes.remembered, ReinvocationState):
        attributes.remembered = ReinvocationState(set(), set(), None)
    return attributes.remembered


def _annotate(hook: Webhook, attributes: Attributes, has_changed: bool) -> None:
    """Add an annotation to the audit record."""
    key = f"round_{int(attributes.is_reinvoked)}_index_{hook.index}"
    record = {"configuration": hook.configuration, "webhook": hook.name, "mutated": has_changed}
    attributes.annotations[f"mutation.webhook.admission.k8s.io/{key}"] = orjson.dumps(record).decode()


class _Change(Struct, frozen=True):
    """The change that one webhook makes to one write."""

    threads: ComputeThreads
    hook: Webhook
    attributes: Attributes
    matched: Kind

    async def apply(self, shown: Object | None, verdict: WebhookVerdict) -> bool:
        """Apply a patch to the object that the webhook was sent, and update the write's object with the
        result. Returns whether it differs."""
        attributes, name = self.attributes, quote(self.hook.name)
        if shown is None or not is_changeable(attributes):
            message = f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
            raise InternalError(f"Internal error occurred: {message}")
        before, tenant = attributes.obj, attributes.tenant
        assert before is not None
        size = max(verdict.size_bytes, len(orjson.dumps(shown)))
        try:
            patched = partial(self._patched, shown, verdict.patch)
            changed = await self.threads.for_size(tenant, size, patched)
            taken = await review_objects.take_back(attributes, self.matched, changed)
            completed = partial(self._completed, taken, before)
            new: Object | None = await self.threads.for_size(tenant, size, completed)
        except TooManyRequests:
            raise
        except ApiError as error:
            message = f"admission webhook {name} returned an invalid object: {error.message}"
            raise InternalError(f"Internal error occurred: {message}") from error
        if new is None:
            return False
        before.clear()
        before.update(new)
        return True

    def _patched(self, shown: Object, patch: Any) -> Object:
        changed = json_patch.apply(shown, patch)
        if (changed.get("apiVersion"), changed.get("kind")) != (shown["apiVersion"], shown["kind"]):
            raise BadRequest("the kind of an object cannot be changed")
        if self.attributes.subresource != "scale" and self.attributes.operation is not Operation.CONNECT:
            changed = decode(self.matched.schema, changed)
        return changed

    def _completed(self, taken: Object, before: Object) -> Object | None:
        """The new object; None if it is the same as before."""
        new = complete(self.attributes, taken)
        return None if new == before else new
