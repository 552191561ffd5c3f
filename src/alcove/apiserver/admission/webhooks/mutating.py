"""The plugin that calls a tenant's mutating webhooks: one after the other, each sees the changes of earlier
ones. The changed object is decoded, defaulted and completed as if a client had sent it.

A webhook with reinvocationPolicy IfNeeded is called once more if the object changed after its call; every
other plugin then runs once more as well (`chain`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, BadRequest, InternalError, Timeout
from alcove.api.fields import quote
from alcove.api.ids import GroupResource
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch import json as json_patch
from alcove.api.schema.decode import decode
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.completion import complete, is_changeable
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.admission.webhooks import review_objects
from alcove.apiserver.admission.webhooks.caller import OUT_OF_TIME, PHASE_SECONDS_MAX, WebhookCaller
from alcove.apiserver.admission.webhooks.hooks import GROUP, MUTATING, Webhook, WebhookHooks, collect
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
    def __init__(self, reader: CacheReader, kinds: ServedKinds, caller: WebhookCaller) -> None:
        self._kinds = kinds
        self._caller = caller
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
        for hook, matched in relevant:
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
            state.last = orjson.loads(orjson.dumps(attributes.obj))

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
            has_changed = await _change(hook, attributes, matched, shown.obj, result.patch)
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


async def _change(
    hook: Webhook, attributes: Attributes, matched: Kind, shown: Object | None, patch: Any
) -> bool:
    """Apply a patch to the object that the webhook was sent, and update the write's object with the
    result."""
    if shown is None or not is_changeable(attributes):
        message = f"admission webhook {quote(hook.name)} attempted to modify the object, which is not supported for this operation"
        raise InternalError(f"Internal error occurred: {message}")
    try:
        changed = json_patch.apply(shown, patch)
        if (changed.get("apiVersion"), changed.get("kind")) != (shown["apiVersion"], shown["kind"]):
            raise BadRequest("the kind of an object cannot be changed")
        if attributes.subresource != "scale" and attributes.operation is not Operation.CONNECT:
            changed = decode(matched.schema, changed)
        new = complete(attributes, await review_objects.take_back(attributes, matched, changed))
    except ApiError as error:
        message = f"admission webhook {quote(hook.name)} returned an invalid object: {error.message}"
        raise InternalError(f"Internal error occurred: {message}") from error
    before = attributes.obj
    assert before is not None
    if new == before:
        return False
    before.clear()
    before.update(new)
    return True
