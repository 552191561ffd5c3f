"""The plugin that calls a tenant's validating webhooks: concurrently; the first rejection in their order is
returned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from alcove.api.errors import Invalid, Timeout
from alcove.api.fields import FieldError, invalid
from alcove.api.ids import GroupResource
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission.admission_objects import LOOKED_AT_ONCE
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
    def __init__(self, reader: CacheReader, kinds: ServedKinds, caller: WebhookCaller) -> None:
        self._kinds = kinds
        self._caller = caller
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
        requested = review_objects.as_requested(attributes)
        relevant = hooks.about(requested, self._kinds)
        if not relevant or self._caller.is_spared(attributes):
            return
        try:
            async with asyncio.timeout(PHASE_SECONDS_MAX):
                await self._run(relevant, requested)
        except TimeoutError as error:
            raise Timeout(OUT_OF_TIME) from error

    async def _run(self, relevant: tuple[tuple[Webhook, Kind], ...], attributes: Attributes) -> None:
        matching: list[tuple[Webhook, Kind]] = []
        for index, (hook, matched) in enumerate(relevant, 1):
            if await self._caller.matches(hook, attributes, matched):
                matching.append((hook, matched))
            if not index % LOOKED_AT_ONCE:
                await asyncio.sleep(0)
        calls = [self._call(hook, attributes, matched) for hook, matched in matching]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _call(self, hook: Webhook, attributes: Attributes, matched: Kind) -> None:
        shown = await review_objects.show(attributes, matched)
        try:
            await self._caller.ask(hook, attributes, matched, shown, may_change=False)
        except WebhookError as error:
            self._caller.pardon(hook, attributes, error, "validating")


def check_conditions(attributes: Attributes) -> None:
    """Raise Invalid for a configuration with match conditions that do not compile."""
    webhooks = (attributes.obj or {}).get("webhooks") or ()
    if not any(webhook.get("matchConditions") for webhook in webhooks):
        return
    if attributes.old is not None and webhooks == attributes.old.get("webhooks"):
        return
    from alcove.apiserver.admission.policies.compiled import Compiler

    compiler = Compiler(has_params=False)
    errors = [
        error
        for index, webhook in enumerate(webhooks)
        for error in _condition_errors(compiler, webhook, f"webhooks[{index}].matchConditions")
    ]
    if errors:
        raise Invalid.of(GROUP, attributes.kind.kind, attributes.name, errors)


def _condition_errors(compiler: Compiler, webhook: Object, path: str) -> list[FieldError]:
    from alcove.api.cel.types import BOOL

    errors: list[FieldError] = []
    for index, condition in enumerate(webhook.get("matchConditions") or ()):
        source = condition.get("expression", "")
        compiled = compiler.compile(source, (BOOL,))
        if compiled.program is None:
            errors.append(invalid(f"{path}[{index}].expression", source, compiled.error))
    return errors
