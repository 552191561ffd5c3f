"""Configurations of mutating and validating webhooks."""

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.admissionregistration.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    default_rules,
    validate_match_conditions,
    validate_rule,
)
from alcove.api.kinds.checks import fill, one_of
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.kinds.webhookclients import (
    REVIEW_VERSIONS,
    default_client,
    validate_client,
    validate_review_versions,
)
from alcove.api.objects import Object

_REVIEW_VERSIONS_MISSING = f"must specify one of {', '.join(REVIEW_VERSIONS)}"
SIDE_EFFECTS = ("None", "NoneOnDryRun")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
TIMEOUT_SECONDS_DEFAULT = 10
TIMEOUT_SECONDS_MAX = 30


def _default(webhook: Object) -> None:
    fill(webhook, "failurePolicy", "Fail")
    fill(webhook, "matchPolicy", "Equivalent")
    webhook.setdefault("namespaceSelector", {})
    webhook.setdefault("objectSelector", {})
    fill(webhook, "timeoutSeconds", TIMEOUT_SECONDS_DEFAULT)
    default_rules(webhook.get("rules") or ())
    default_client(webhook.get("clientConfig") or {})


def default_validating(configuration: Object) -> None:
    for webhook in configuration.get("webhooks") or ():
        _default(webhook)


def default_mutating(configuration: Object) -> None:
    for webhook in configuration.get("webhooks") or ():
        _default(webhook)
        fill(webhook, "reinvocationPolicy", "Never")


def validate_configuration(configuration: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        errors += _webhook(webhook, path)
        errors += validate_review_versions(
            webhook.get("admissionReviewVersions") or [],
            f"{path}.admissionReviewVersions",
            _REVIEW_VERSIONS_MISSING,
        )
        if name and name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return errors


def _webhook(webhook: Object, path: str) -> list[FieldError]:
    errors = _full_name(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        errors += validate_rule(rule, f"{path}.rules[{index}]")
    for field, supported in (
        ("failurePolicy", FAILURE_POLICIES),
        ("matchPolicy", MATCH_POLICIES),
        ("reinvocationPolicy", REINVOCATION_POLICIES),
    ):
        if field in webhook:
            errors += one_of(webhook[field], supported, f"{path}.{field}")
    if "sideEffects" not in webhook:
        message = f"must specify one of {', '.join(SIDE_EFFECTS)}"
        errors.append(required(f"{path}.sideEffects", message))
    else:
        errors += one_of(webhook["sideEffects"], SIDE_EFFECTS, f"{path}.sideEffects")
    seconds = webhook.get("timeoutSeconds", TIMEOUT_SECONDS_DEFAULT)
    if not 1 <= seconds <= TIMEOUT_SECONDS_MAX:
        message = f"the timeout value must be between 1 and {TIMEOUT_SECONDS_MAX} seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, message))
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(webhook.get(field), f"{path}.{field}")
    errors += validate_client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    return errors + validate_match_conditions(webhook.get("matchConditions") or (), f"{path}.matchConditions")


def _full_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if wrong := names.dns_subdomain(name):
        return [invalid(path, name, ",".join(wrong))]
    if name.count(".") < 2:
        message = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, message)]
    return []


STRATEGIES: dict[str, Strategy] = {
    "validatingwebhookconfigurations": Strategy(
        default=default_validating,
        validate=validate_configuration,
        counts_generation=True,
        unconditional_update=False,
    ),
    "mutatingwebhookconfigurations": Strategy(
        default=default_mutating,
        validate=validate_configuration,
        counts_generation=True,
        unconditional_update=False,
    ),
}
