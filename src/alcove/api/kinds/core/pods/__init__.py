"""Pods: defaults, validation, updates, subresources. Pod templates of other kinds use the same rules."""

from alcove.api.kinds.core.pods.defaults import default_pod_spec, default_pod_template
from alcove.api.kinds.core.pods.spec import validate_pod_spec, validate_pod_template
from alcove.api.kinds.core.pods.strategy import STRATEGY

__all__ = [
    "STRATEGY",
    "default_pod_spec",
    "default_pod_template",
    "validate_pod_spec",
    "validate_pod_template",
]
