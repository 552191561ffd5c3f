"""apiextensions.k8s.io: definitions of custom resources."""

from alcove.api.kinds.apiextensions.definitions import STRATEGIES

__all__ = ["STRATEGIES"]
