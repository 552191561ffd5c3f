"""Bindings: a pod is given to a node. They are acted on, not kept."""

from alcove.api.kind import Strategy
from alcove.api.kinds.core.pods.subresources import validate_binding

STRATEGY = Strategy(validate=validate_binding)
