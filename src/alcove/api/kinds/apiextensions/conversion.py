"""How a definition's versions become each other: not at all but for the version, or by a webhook.

Paths are those of Kubernetes' messages, which flatten `webhook.clientConfig`.
"""

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kinds.checks import named, one_of_required
from alcove.api.kinds.webhookclients import default_client, validate_ca_bundle, validate_client
from alcove.api.objects import Object

STRATEGIES_OF_CONVERSION = ("None", "Webhook")
REVIEW_VERSIONS = ("v1", "v1beta1")
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
    faults = one_of_required(strategy, STRATEGIES_OF_CONVERSION, "spec.conversion.strategy")
    if strategy != "Webhook":
        message = "should not be set when strategy is not set to Webhook"
        given = ((_CLIENT, client), (_VERSIONS, versions))
        return faults + [forbidden(path, message) for path, value in given if value]
    if client is None:
        faults.append(required(_CLIENT, "required when strategy is set to Webhook"))
    else:
        faults += validate_client(client, _CLIENT)
    return faults + _review_versions(versions)


def _review_versions(versions: list[str]) -> list[FieldError]:
    if not versions:
        return [required(_VERSIONS)]
    faults: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            faults.append(invalid(f"{_VERSIONS}[{index}]", version, "duplicate version"))
        else:
            faults += named(version, names.dns_1035_label, f"{_VERSIONS}[{index}]")
    if not set(versions) & set(REVIEW_VERSIONS):
        message = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        faults.append(invalid(_VERSIONS, versions, message))
    return faults


def ca_bundle_faults(now: Object, before: Object) -> list[FieldError]:
    """A CA that cannot be read may stay where it was, but not come in once objects are served."""
    bundle, known = ((_client(spec) or {}).get("caBundle") for spec in (now, before))
    if not bundle or bundle == known:
        return []
    return validate_ca_bundle(bundle, f"{_CLIENT}.caBundle")
