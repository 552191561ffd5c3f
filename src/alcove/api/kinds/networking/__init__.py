"""networking.k8s.io: ingresses and their classes, network policies, addresses of services."""

from alcove.api.kind import Strategy
from alcove.api.kinds.networking import ingresses, networkpolicies, serviceips

STRATEGIES: dict[str, Strategy] = {
    **ingresses.STRATEGIES,
    **networkpolicies.STRATEGIES,
    **serviceips.STRATEGIES,
}
