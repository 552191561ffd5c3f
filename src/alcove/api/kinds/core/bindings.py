"""Bindings: assign a pod to a node. They are executed, not stored."""

from alcove.api.kind import Strategy
from alcove.api.kinds.core.pods.subresources import validate_binding

STRATEGY = Strategy(validate=validate_binding)
