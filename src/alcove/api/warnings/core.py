"""Nodes, service accounts, quotas, custom resources."""

from alcove.api import names, quantity
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
_STANDARD_FINALIZERS = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_FINALIZER_REASON = "to avoid accidental conflicts with other finalizer writers"


def node(new: Object, _old: Object | None) -> list[str]:
    spec = new.get("spec") or {}
    messages = present(_NODE_FIELDS, spec, "spec.")
    for index, value in enumerate(spec.get("podCIDRs") or ()):
        messages += cidr(f"spec.podCIDRs[{index}]", value)
    return messages


def service_account(new: Object, old: Object | None) -> list[str]:
    if old is not None and _MOUNTABLE in annotations(old):
        return []
    return annotated(_ACCOUNT_ANNOTATIONS, annotations(new), "")


def quota(new: Object, old: Object | None) -> list[str]:
    """Warn of requests that may exceed limits, which no pod can use."""
    hard = get(new, "spec", "hard", default={}) if old is None else {}
    messages: list[str] = []
    for resource in ("cpu", "memory", "storage", "ephemeral-storage"):
        requested, limit = f"requests.{resource}", f"limits.{resource}"
        if requested not in hard and resource in ("cpu", "memory"):
            requested = resource
        if requested in hard and limit in hard:
            requests, limits = quantity.of(hard[requested]), quantity.of(hard[limit])
            if requests > limits:
                messages.append(
                    f"ResourceQuota {requested} ({requests}) should be less than {limit} ({limits})"
                )
    return messages


def custom_resource(new: Object, old: Object | None) -> list[str]:
    """Warn of new finalizer names without a domain, which may collide."""
    before = get(old, "metadata", "finalizers", default=()) if old is not None else ()
    added = sorted(set(get(new, "metadata", "finalizers", default=())) - set(before))
    return [message for finalizer in added for message in _finalizer(finalizer)]


def _finalizer(name: str) -> list[str]:
    messages = [f'metadata.finalizers: "{name}": {error}' for error in names.qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        better = "finalizer name including a path (/)" if "." in name else "finalizer name"
        messages.append(
            f'metadata.finalizers: "{name}": prefer a domain-qualified {better} {_FINALIZER_REASON}'
        )
    return messages
