"""The plugin that lets a tenant's webhooks refuse a write: all of them at once, the first refusal counts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alcove.api.errors import Invalid, Timeout
from alcove.api.fields import FieldError, invalid
from alcove.api.ids import GroupResource
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.admission.webhooks import review_objects
from alcove.apiserver.admission.webhooks.caller import OUT_OF_TIME, PHASE_SECONDS_MAX, WebhookCaller
from alcove.apiserver.admission.webhooks.hooks import (
    GROUP,
    MUTATING,
    VALIDATING,
    Webhook,
    WebhookHooks,
    collect,
)
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.reader import CacheReader, ServedKinds

if TYPE_CHECKING:
    from alcove.apiserver.admission.policies.compiled import Compiler

_CONFIGURATIONS = (MUTATING, VALIDATING)


class ValidatingWebhooks(Plugin):
    def __init__(self, reader: CacheReader, kinds: ServedKinds, calling: WebhookCaller) -> None:
        self._kinds = kinds
        self._calling = calling
        self._hooks: DerivedCache[WebhookHooks] = DerivedCache(
            reader, VALIDATING, lambda tenant: collect(reader, VALIDATING, tenant)
        )

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource.group != GROUP or (resource in _CONFIGURATIONS and operation is not Operation.DELETE)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.kind.group == GROUP:
            check_conditions(attributes)
            return
        hooks = self._hooks.of(attributes.tenant)
        if not hooks:
            return
        asked = review_objects.as_requested(attributes)
        relevant = hooks.about(asked, self._kinds)
        if not relevant or self._calling.is_spared(attributes):
            return
        try:
            async with asyncio.timeout(PHASE_SECONDS_MAX):
                await self._run(relevant, asked)
        except TimeoutError as error:
            raise Timeout(OUT_OF_TIME) from error

    async def _run(self, relevant: tuple[tuple[Webhook, Kind], ...], attributes: Attributes) -> None:
        wanted = [
            (hook, matched)
            for hook, matched in relevant
            if await self._calling.matches(hook, attributes, matched)
        ]
        calls = [self._ask(hook, attributes, matched) for hook, matched in wanted]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _ask(self, hook: Webhook, attributes: Attributes, matched: Kind) -> None:
        seen = await review_objects.show(attributes, matched)
        try:
            await self._calling.ask(hook, attributes, matched, seen, may_change=False)
        except WebhookError as error:
            self._calling.pardon(hook, attributes, error, "validating")


def check_conditions(attributes: Attributes) -> None:
    """Refuses a configuration with match conditions that do not compile. Raises Invalid."""
    webhooks = (attributes.obj or {}).get("webhooks") or ()
    if not any(webhook.get("matchConditions") for webhook in webhooks):
        return
    if attributes.old is not None and webhooks == attributes.old.get("webhooks"):
        return
    from alcove.apiserver.admission.policies.compiled import Compiler

    compiler = Compiler(has_params=False)
    faults = [
        fault
        for index, webhook in enumerate(webhooks)
        for fault in _faults(compiler, webhook, f"webhooks[{index}].matchConditions")
    ]
    if faults:
        raise Invalid.of(GROUP, attributes.kind.kind, attributes.name, faults)


def _faults(compiler: Compiler, webhook: Object, path: str) -> list[FieldError]:
    from alcove.api.cel.types import BOOL

    faults: list[FieldError] = []
    for index, condition in enumerate(webhook.get("matchConditions") or ()):
        source = condition.get("expression", "")
        compiled = compiler.compile(source, (BOOL,))
        if compiled.program is None:
            faults.append(invalid(f"{path}[{index}].expression", source, compiled.error))
    return faults
