"""A tenant's webhooks, compiled from their configurations, and which of them match a write.

Which rules match depends only on the kind and operation, so it is computed once for each and cached;
selectors are evaluated each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct

from alcove.api import objects, selectors
from alcove.api.errors import BadRequest
from alcove.api.ids import GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.resources import NAMESPACES
from alcove.api.selectors import NOTHING, LabelSelector
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.admission.policies.matching import MatchRule, matches_namespace
from alcove.apiserver.reader import CacheReader, ServedKinds

GROUP = "admissionregistration.k8s.io"
MUTATING = GroupResource(GROUP, "mutatingwebhookconfigurations")
VALIDATING = GroupResource(GROUP, "validatingwebhookconfigurations")
TIMEOUT_SECONDS = 10
MATCHES_KEPT_MAX = 4096


class Webhook(Struct, frozen=True):
    name: str
    configuration: str
    index: int
    """The position among the webhooks of its configuration."""
    rules: tuple[MatchRule, ...]
    is_exact: bool
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[Object, ...]
    client: Object
    ignores_failures: bool
    timeout_seconds: int
    takes_dry_runs: bool
    review: str
    """The version of AdmissionReview that it receives."""
    is_reinvoked: bool

    @property
    def identity(self) -> tuple[str, int]:
        return self.configuration, self.index

    def matched(self, attributes: Attributes, others: Sequence[Kind]) -> Kind | None:
        """The kind as which the rules match the write, of the requested one and its equivalents; None if they
        do not match."""
        requested = attributes.requested or attributes.kind
        if any(rule.matches(attributes, requested) for rule in self.rules):
            return requested
        if self.is_exact:
            return None
        for rule in self.rules:
            for kind in others:
                if rule.matches(attributes, kind):
                    return kind
        return None

    def selects(self, attributes: Attributes, reader: CacheReader) -> bool:
        """Whether the selectors match the write's namespace and object."""
        namespace = partial(reader.get, attributes.tenant, NAMESPACES, "", attributes.namespace)
        if not matches_namespace(self.namespaces, attributes, namespace):
            return False
        if self.objects.is_everything:
            return True
        either = (attributes.obj, attributes.old)
        return any(obj is not None and self.objects.matches(objects.labels(obj)) for obj in either)


class WebhookHooks:
    """The webhooks of one tenant and one kind, in the order in which they are called."""

    def __init__(self, hooks: Sequence[Webhook]) -> None:
        self._hooks = hooks
        self._kinds: Sequence[Kind] = ()
        self._cached: dict[object, tuple[tuple[Webhook, Kind], ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def about(self, attributes: Attributes, kinds: ServedKinds) -> tuple[tuple[Webhook, Kind], ...]:
        """The webhooks whose rules match, with the kind as which they match."""
        served = kinds.all(attributes.tenant)
        if served is not self._kinds or len(self._cached) > MATCHES_KEPT_MAX:
            self._kinds, self._cached = served, {}
        kind = attributes.requested or attributes.kind
        is_namespaced = bool(attributes.namespace) and attributes.resource != NAMESPACES
        key = (attributes.operation, kind.api_version, kind.resource, attributes.subresource, is_namespaced)
        matches = self._cached.get(key)
        if matches is None:
            others = [
                each for each in served if each.storage_resource == kind.storage_resource and each is not kind
            ]
            matches = self._cached[key] = tuple(
                (hook, matched)
                for hook in self._hooks
                if (matched := hook.matched(attributes, others)) is not None
            )
        return matches


def collect(reader: CacheReader, resource: GroupResource, tenant: TenantId) -> WebhookHooks:
    """The webhooks, sorted by the name of their configuration, then in its order."""
    configurations = sorted(reader.list(tenant, resource), key=objects.name)
    return WebhookHooks([hook for each in configurations for hook in _compile(each)])


def _compile(configuration: Object) -> Iterator[Webhook]:
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        versions = webhook.get("admissionReviewVersions") or ()
        yield Webhook(
            name=webhook.get("name", ""),
            configuration=objects.name(configuration),
            index=index,
            rules=tuple(map(MatchRule.of, webhook.get("rules") or ())),
            is_exact=webhook.get("matchPolicy") == "Exact",
            namespaces=_selector(webhook.get("namespaceSelector")),
            objects=_selector(webhook.get("objectSelector")),
            conditions=tuple(webhook.get("matchConditions") or ()),
            client=webhook.get("clientConfig") or {},
            ignores_failures=webhook.get("failurePolicy") == "Ignore",
            timeout_seconds=webhook.get("timeoutSeconds") or TIMEOUT_SECONDS,
            takes_dry_runs=webhook.get("sideEffects") in ("None", "NoneOnDryRun"),
            review=next((each for each in versions if each in ("v1", "v1beta1")), ""),
            is_reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
        )


def _selector(selector: Object | None) -> LabelSelector:
    try:
        return selectors.from_object(selector or {})
    except BadRequest:
        # Validation rejects invalid selectors.
        return NOTHING
