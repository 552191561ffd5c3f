"""Conversion between a CRD's versions: only apiVersion changes (`None`), or a webhook converts.

Paths are those of Kubernetes' messages, which flatten `webhook.clientConfig`.
"""

from alcove.api.fields import FieldError, forbidden, required
from alcove.api.kinds.checks import one_of_required
from alcove.api.kinds.webhookclients import (
    default_client,
    validate_ca_bundle,
    validate_client,
    validate_review_versions,
)
from alcove.api.objects import Object

STRATEGIES_OF_CONVERSION = ("None", "Webhook")
_CLIENT = "spec.conversion.webhookClientConfig"
_VERSIONS = "spec.conversion.conversionReviewVersions"


def default_conversion(spec: Object) -> None:
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    default_client(_client(spec) or {})


def _client(spec: Object) -> Object | None:
    webhook = (spec.get("conversion") or {}).get("webhook") or {}
    return webhook.get("clientConfig")


def validate_conversion(spec: Object) -> list[FieldError]:
    conversion = spec.get("conversion")
    if conversion is None:
        return []
    strategy, client = conversion.get("strategy", ""), _client(spec)
    versions = (conversion.get("webhook") or {}).get("conversionReviewVersions") or []
    errors = one_of_required(strategy, STRATEGIES_OF_CONVERSION, "spec.conversion.strategy")
    if strategy != "Webhook":
        message = "should not be set when strategy is not set to Webhook"
        webhook_fields = ((_CLIENT, client), (_VERSIONS, versions))
        return errors + [forbidden(path, message) for path, value in webhook_fields if value]
    if client is None:
        errors.append(required(_CLIENT, "required when strategy is set to Webhook"))
    else:
        errors += validate_client(client, _CLIENT)
    return errors + validate_review_versions(versions, _VERSIONS)


def ca_bundle_errors(now: Object, before: Object) -> list[FieldError]:
    """An invalid CA bundle may stay unchanged, but must not be introduced once objects are served."""
    bundle, old_bundle = ((_client(spec) or {}).get("caBundle") for spec in (now, before))
    if not bundle or bundle == old_bundle:
        return []
    return validate_ca_bundle(bundle, f"{_CLIENT}.caBundle")
