"""networking.k8s.io: ingresses and their classes, network policies."""

from alcove.api.kind import Strategy
from alcove.api.kinds.networking import ingresses, networkpolicies

STRATEGIES: dict[str, Strategy] = {**ingresses.STRATEGIES, **networkpolicies.STRATEGIES}
