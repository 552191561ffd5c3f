"""apiextensions.k8s.io: CustomResourceDefinitions."""

from alcove.api.kinds.apiextensions.definitions import STRATEGIES

__all__ = ["STRATEGIES"]
