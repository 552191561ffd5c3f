"""A tenant's webhooks, compiled from their configurations, and which of them a write concerns.

Which rules match depends on the kind and operation alone, so it is worked out once for each and kept;
selectors are asked each time.
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
from alcove.api.selectors import NOTHING, LabelSelector
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.admission.policies.matching import NAMESPACES, MatchRule, matches_namespace
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
    """Among the webhooks of its configuration."""
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
    """The version of AdmissionReview it is sent."""
    is_reinvoked: bool

    @property
    def identity(self) -> tuple[str, int]:
        return self.configuration, self.index

    def matched(self, attributes: Attributes, others: Sequence[Kind]) -> Kind | None:
        """The kind as which the rules match the write, of the one asked for and its equivalents; None if
        they do not."""
        asked = attributes.requested or attributes.kind
        if any(rule.matches(attributes, asked) for rule in self.rules):
            return asked
        if self.is_exact:
            return None
        for rule in self.rules:
            for kind in others:
                if rule.matches(attributes, kind):
                    return kind
        return None

    def selects(self, attributes: Attributes, reader: CacheReader) -> bool:
        """Whether the write's namespace and object are among those it is about."""
        namespace = partial(reader.get, attributes.tenant, NAMESPACES, "", attributes.namespace)
        if not matches_namespace(self.namespaces, attributes, namespace):
            return False
        if self.objects.is_everything:
            return True
        either = (attributes.obj, attributes.old)
        return any(obj is not None and self.objects.matches(objects.labels(obj)) for obj in either)


class WebhookHooks:
    """The webhooks of one tenant and one kind, in the order they are called."""

    def __init__(self, hooks: Sequence[Webhook]) -> None:
        self._hooks = hooks
        self._kinds: Sequence[Kind] = ()
        self._kept: dict[object, tuple[tuple[Webhook, Kind], ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def about(self, attributes: Attributes, kinds: ServedKinds) -> tuple[tuple[Webhook, Kind], ...]:
        """Those whose rules match, with the kind as which they do."""
        served = kinds.all(attributes.tenant)
        if served is not self._kinds or len(self._kept) > MATCHES_KEPT_MAX:
            self._kinds, self._kept = served, {}
        kind = attributes.requested or attributes.kind
        where = bool(attributes.namespace) and attributes.resource != NAMESPACES
        key = (attributes.operation, kind.api_version, kind.resource, attributes.subresource, where)
        found = self._kept.get(key)
        if found is None:
            others = [
                each for each in served if each.storage_resource == kind.storage_resource and each is not kind
            ]
            found = self._kept[key] = tuple(
                (hook, matched)
                for hook in self._hooks
                if (matched := hook.matched(attributes, others)) is not None
            )
        return found


def collect(reader: CacheReader, resource: GroupResource, tenant: TenantId) -> WebhookHooks:
    """By name of their configurations, then as listed there."""
    configurations = sorted(reader.list(tenant, resource), key=objects.name)
    return WebhookHooks([hook for each in configurations for hook in _of(each)])


def _of(configuration: Object) -> Iterator[Webhook]:
    for index, given in enumerate(configuration.get("webhooks") or ()):
        versions = given.get("admissionReviewVersions") or ()
        yield Webhook(
            name=given.get("name", ""),
            configuration=objects.name(configuration),
            index=index,
            rules=tuple(map(MatchRule.of, given.get("rules") or ())),
            is_exact=given.get("matchPolicy") == "Exact",
            namespaces=_selector(given.get("namespaceSelector")),
            objects=_selector(given.get("objectSelector")),
            conditions=tuple(given.get("matchConditions") or ()),
            client=given.get("clientConfig") or {},
            ignores_failures=given.get("failurePolicy") == "Ignore",
            timeout_seconds=given.get("timeoutSeconds") or TIMEOUT_SECONDS,
            takes_dry_runs=given.get("sideEffects") in ("None", "NoneOnDryRun"),
            review=next((each for each in versions if each in ("v1", "v1beta1")), ""),
            is_reinvoked=given.get("reinvocationPolicy") == "IfNeeded",
        )


def _selector(given: Object | None) -> LabelSelector:
    try:
        return selectors.from_object(given or {})
    except BadRequest:
        # Validation lets none in that cannot be read.
        return NOTHING
