"""Labels of nodes that have newer names, wherever nodes are chosen by them."""

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


def expressions(given: Object, path: str, *, values: bool = False) -> list[str]:
    """`matchExpressions` of a selector or term; `values`: whether those are looked at too."""
    found: list[str] = []
    for index, expression in enumerate(given.get("matchExpressions") or ()):
        where, key = f"{path}.matchExpressions[{index}]", expression.get("key", "")
        if key in DEPRECATED:
            found.append(f"{where}.key: {key} is {DEPRECATED[key]}")
        if values:
            for number, value in enumerate(expression.get("values") or ()):
                told = (
                    f"{where}.values[{number}]: {value} is invalid, " + fault
                    for fault in names.label_value(value)
                )
                found += told
    return found


def selector(given: Object | None, path: str) -> list[str]:
    """A label selector of nodes."""
    if not given:
        return []
    labels = (label for label in given.get("matchLabels") or () if label in DEPRECATED)
    return expressions(given, path) + [f"{path}.matchLabels.{label}: {DEPRECATED[label]}" for label in labels]


def affinity(given: Object, path: str) -> list[str]:
    """A pod's node affinity."""
    found: list[str] = []
    required, preferred = (
        f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
    )
    for index, term in enumerate(get(given, required, "nodeSelectorTerms", default=())):
        found += expressions(term, f"{path}.{required}.nodeSelectorTerms[{index}]")
    for index, weighted in enumerate(given.get(preferred) or ()):
        term = weighted.get("preference") or {}
        found += expressions(term, f"{path}.{preferred}[{index}].preference", values=True)
    return found


def runtime_class(new: Object, _old: Object | None) -> list[str]:
    chosen = get(new, "scheduling", "nodeSelector", default={})
    return [f"scheduling.nodeSelector: {DEPRECATED[label]}" for label in chosen if label in DEPRECATED]
