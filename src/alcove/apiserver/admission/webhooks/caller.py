"""Calls one webhook for one write, and applies its failurePolicy if the call fails."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from alcove.api import meta
from alcove.api.errors import BadRequest, Details, Forbidden, InternalError, StatusCause, TooManyRequests
from alcove.api.fields import quote
from alcove.api.ids import SYSTEM
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.resources import NAMESPACES, TENANTS
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.admission.policies.evaluation import CompiledExpressions, evaluated
from alcove.apiserver.admission.webhooks import review
from alcove.apiserver.admission.webhooks.hooks import Webhook
from alcove.apiserver.admission.webhooks.review import Denied, WebhookVerdict
from alcove.apiserver.admission.webhooks.review_objects import ReviewObjects, show
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.reader import CacheReader

if TYPE_CHECKING:
    from alcove.apiserver.admission.policies.compiled import Conditions

log = logging.getLogger(__name__)

PHASE_SECONDS_MAX = 30.0
"""Time limit for all mutating webhooks of a write, and again for all validating ones."""
OUT_OF_TIME = "request did not complete within requested timeout"


class WebhookCaller:
    def __init__(
        self, reader: CacheReader, authorizer: Authorizer, webhooks: Webhooks, threads: ComputeThreads
    ) -> None:
        self._threads = threads
        self._conditions = CompiledExpressions(threads, _conditions)
        self._reader = reader
        self._authorizer = authorizer
        self._webhooks = webhooks

    def is_spared(self, attributes: Attributes) -> bool:
        """Whether webhooks are skipped: those of a terminating tenant must not block ring0's writes."""
        if attributes.tenant == SYSTEM or not attributes.identity.is_system:
            return False
        tenant = self._reader.get(SYSTEM, TENANTS, "", attributes.tenant)
        return tenant is None or "deletionTimestamp" in tenant["metadata"]

    async def matches(self, hook: Webhook, attributes: Attributes, matched: Kind) -> bool:
        """Whether the webhook's selectors and match conditions hold. Raises Forbidden if a condition cannot
        be evaluated."""
        if not hook.selects(attributes, self._reader):
            return False
        if not hook.conditions:
            return True
        conditions = await self._conditions.get(attributes.tenant, hook.conditions)
        from alcove.apiserver.admission.policies.compiled import EvaluationError
        from alcove.apiserver.admission.policies.variables import activation, asker

        shown = await show(attributes, matched)
        ask = asker(self._authorizer, attributes)
        namespace = None
        if attributes.namespace and attributes.resource != NAMESPACES:
            namespace = self._reader.get(attributes.tenant, NAMESPACES, "", attributes.namespace)
        values = activation(attributes, matched, shown.obj, shown.old, namespace, ask)
        try:
            return bool(await evaluated(self._threads, attributes, partial(conditions.hold, values)))
        except EvaluationError as error:
            if hook.ignores_failures:
                return False
            raise Forbidden.of(attributes.resource, attributes.name, str(error)) from error

    async def ask(
        self, hook: Webhook, attributes: Attributes, matched: Kind, shown: ReviewObjects, *, may_change: bool
    ) -> WebhookVerdict:
        """Call the webhook. Raises Denied, WebhookError if there is no valid response, and TooManyRequests."""
        if attributes.dry_run and not hook.takes_dry_runs:
            raise BadRequest(f"admission webhook {quote(hook.name)} does not support dry run")
        uid = meta.new_uid()
        body = review.encode(attributes, hook.review, uid, matched, shown)
        tenant, seconds = attributes.tenant, hook.timeout_seconds
        async with AsyncExitStack() as stack:
            try:
                call = self._webhooks.call(tenant, hook.client, body, timeout_seconds=seconds)
                response = await stack.enter_async_context(call)
            except TooManyCalls:
                raise
            except WebhookError as error:
                raise WebhookError(f"failed to call webhook: {error}") from error
            decode = partial(review.decode, response, hook.review, uid, may_change=may_change)
            result: WebhookVerdict = await self._threads.for_size(tenant, len(response), decode)
        for text in result.warnings:
            attributes.warn(text)
        for key, value in result.annotations.items():
            attributes.annotations[f"{hook.name}/{key}"] = value
        if not result.is_allowed:
            raise Denied(hook.name, result.result)
        return result

    def pardon(self, hook: Webhook, attributes: Attributes, error: WebhookError, phase: str) -> None:
        """Ignore the error if the webhook's failurePolicy is Ignore. Raises InternalError and
        TooManyRequests."""
        if isinstance(error, TooManyCalls):
            # The webhook did not fail: a client must not be able to bypass it by sending many requests.
            raise TooManyRequests.after(1, f"{error}; try again") from error
        message = f"failed calling webhook {quote(hook.name)}: {error}"
        if not hook.ignores_failures:
            raise InternalError(
                f"Internal error occurred: {message}", Details(causes=(StatusCause("", message),))
            ) from error
        log.warning(
            "webhook call failed; allowed by failurePolicy Ignore",
            extra={"tenant": attributes.tenant, "webhook": hook.name},
        )
        key = f"round_{int(attributes.is_reinvoked)}_index_{hook.index}"
        attributes.annotations[f"failed-open.{phase}.webhook.admission.k8s.io/{key}"] = hook.name


def _conditions(source: list[Object]) -> Conditions:
    from alcove.apiserver.admission.policies.compiled import Compiler, Conditions

    return Conditions(source, Compiler(has_params=False))
