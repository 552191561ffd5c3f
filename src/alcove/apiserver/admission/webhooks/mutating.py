"""The plugin that lets a tenant's webhooks change an object: one after the other, each seeing the changes
of those before it. What they make of it is decoded, defaulted and completed as if a client had sent it.

A webhook whose policy is IfNeeded is asked once more if the object changed after it; every other plugin
runs once more then as well (`chain`).
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
    """What is remembered from the first run to the second."""

    asked: set[tuple[str, int]]
    """Webhooks to be asked again if the object changes after them."""
    due: set[tuple[str, int]]
    """Those that are."""
    last: Object | None
    """The object as the webhooks left it."""

    def changed(self) -> None:
        self.due |= self.asked
        self.asked.clear()


class MutatingWebhooks(Plugin):
    def __init__(self, reader: CacheReader, kinds: ServedKinds, calling: WebhookCaller) -> None:
        self._kinds = kinds
        self._calling = calling
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
        if not relevant or self._calling.is_spared(attributes):
            return
        try:
            async with asyncio.timeout(PHASE_SECONDS_MAX):
                await self._run(relevant, attributes)
        except TimeoutError as error:
            raise Timeout(OUT_OF_TIME) from error

    async def _run(self, relevant: tuple[tuple[Webhook, Kind], ...], attributes: Attributes) -> None:
        kept = _round(attributes)
        if attributes.is_reinvoked and kept.last != attributes.obj:
            kept.changed()
        for hook, matched in relevant:
            if attributes.is_reinvoked and hook.identity not in kept.due:
                # Nobody is asked for the first time in the second round.
                continue
            if await self._calling.matches(hook, review_objects.as_requested(attributes), matched):
                if await self._ask(hook, attributes, matched):
                    kept.changed()
                    attributes.reinvoke = True
                if hook.is_reinvoked:
                    kept.asked.add(hook.identity)
        if attributes.reinvoke and attributes.obj is not None:
            kept.last = orjson.loads(orjson.dumps(attributes.obj))

    async def _ask(self, hook: Webhook, attributes: Attributes, matched: Kind) -> bool:
        """Whether the webhook changed the object."""
        seen = await review_objects.show(attributes, matched)
        asked = review_objects.as_requested(attributes)
        try:
            verdict = await self._calling.ask(hook, asked, matched, seen, may_change=True)
        except WebhookError as error:
            self._calling.pardon(hook, attributes, error, "mutating")
            return False
        has_changed = False
        if verdict.patch:
            has_changed = await _change(hook, attributes, matched, seen.obj, verdict.patch)
        _note(hook, attributes, has_changed)
        return has_changed


def _round(attributes: Attributes) -> ReinvocationState:
    if not isinstance(attributes.remembered, ReinvocationState):
        attributes.remembered = ReinvocationState(set(), set(), None)
    return attributes.remembered


def _note(hook: Webhook, attributes: Attributes, has_changed: bool) -> None:
    """For the audit record."""
    key = f"round_{int(attributes.is_reinvoked)}_index_{hook.index}"
    told = {"configuration": hook.configuration, "webhook": hook.name, "mutated": has_changed}
    attributes.annotations[f"mutation.webhook.admission.k8s.io/{key}"] = orjson.dumps(told).decode()


async def _change(
    hook: Webhook, attributes: Attributes, matched: Kind, seen: Object | None, patch: Any
) -> bool:
    """Applies a patch to what the webhook was shown, and takes the outcome into the write."""
    if seen is None or not is_changeable(attributes):
        message = f"admission webhook {quote(hook.name)} attempted to modify the object, which is not supported for this operation"
        raise InternalError(f"Internal error occurred: {message}")
    try:
        changed = json_patch.apply(seen, patch)
        if (changed.get("apiVersion"), changed.get("kind")) != (seen["apiVersion"], seen["kind"]):
            raise BadRequest("the kind of an object cannot be changed")
        if attributes.subresource != "scale" and attributes.operation is not Operation.CONNECT:
            changed = decode(matched.schema, changed)
        new = complete(attributes, await review_objects.take_back(attributes, matched, changed))
    except ApiError as error:
        message = f"admission webhook {quote(hook.name)} made an object that cannot be used: {error.message}"
        raise InternalError(f"Internal error occurred: {message}") from error
    before = attributes.obj
    assert before is not None
    if new == before:
        return False
    before.clear()
    before.update(new)
    return True
