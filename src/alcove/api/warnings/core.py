"""Nodes, service accounts, quotas."""

from alcove.api import quantity
from alcove.api.objects import Object, annotations, get
from alcove.api.warnings.base import annotated, cidr, present

_NODE_FIELDS = {
    "configSource": "the feature is removed",
    "externalID": "this field is deprecated, and is unused by Kubernetes",
}
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_ACCOUNT_ANNOTATIONS = {
    _MOUNTABLE: "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
}


def node(new: Object, _old: Object | None) -> list[str]:
    spec = new.get("spec") or {}
    found = present(_NODE_FIELDS, spec, "spec.")
    for index, value in enumerate(spec.get("podCIDRs") or ()):
        found += cidr(f"spec.podCIDRs[{index}]", value)
    return found


def service_account(new: Object, old: Object | None) -> list[str]:
    if old is not None and _MOUNTABLE in annotations(old):
        return []
    return annotated(_ACCOUNT_ANNOTATIONS, annotations(new), "")


def quota(new: Object, old: Object | None) -> list[str]:
    """Requests that may be more than limits, which nothing can use."""
    hard = get(new, "spec", "hard", default={}) if old is None else {}
    found: list[str] = []
    for resource in ("cpu", "memory", "storage", "ephemeral-storage"):
        asked, limit = f"requests.{resource}", f"limits.{resource}"
        if asked not in hard and resource in ("cpu", "memory"):
            asked = resource
        if asked in hard and limit in hard:
            requests, limits = quantity.of(hard[asked]), quantity.of(hard[limit])
            if requests > limits:
                found.append(f"ResourceQuota {asked} ({requests}) should be less than {limit} ({limits})")
    return found
