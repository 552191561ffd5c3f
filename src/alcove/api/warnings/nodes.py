"""Deprecated node labels, in every field that selects nodes by label."""

from alcove.api import names
from alcove.api.objects import Object, get

DEPRECATED = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def expressions(spec: Object, path: str, *, values: bool = False) -> list[str]:
    """Check `matchExpressions` of a selector or term; with `values`, their values too."""
    messages: list[str] = []
    for index, expression in enumerate(spec.get("matchExpressions") or ()):
        where, key = f"{path}.matchExpressions[{index}]", expression.get("key", "")
        if key in DEPRECATED:
            messages.append(f"{where}.key: {key} is {DEPRECATED[key]}")
        if values:
            for number, value in enumerate(expression.get("values") or ()):
                invalid = (
                    f"{where}.values[{number}]: {value} is invalid, " + message
                    for message in names.label_value(value)
                )
                messages += invalid
    return messages


def selector(spec: Object | None, path: str) -> list[str]:
    """Check a label selector of nodes."""
    if not spec:
        return []
    labels = (label for label in spec.get("matchLabels") or () if label in DEPRECATED)
    return expressions(spec, path) + [f"{path}.matchLabels.{label}: {DEPRECATED[label]}" for label in labels]


def affinity(spec: Object, path: str) -> list[str]:
    """Check a pod's node affinity."""
    messages: list[str] = []
    required, preferred = (
        f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
    )
    for index, term in enumerate(get(spec, required, "nodeSelectorTerms", default=())):
        messages += expressions(term, f"{path}.{required}.nodeSelectorTerms[{index}]")
    for index, weighted in enumerate(spec.get(preferred) or ()):
        term = weighted.get("preference") or {}
        messages += expressions(term, f"{path}.{preferred}[{index}].preference", values=True)
    return messages


def runtime_class(new: Object, _old: Object | None) -> list[str]:
    chosen = get(new, "scheduling", "nodeSelector", default={})
    return [f"scheduling.nodeSelector: {DEPRECATED[label]}" for label in chosen if label in DEPRECATED]
