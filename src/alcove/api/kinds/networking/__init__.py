"""networking.k8s.io: ingresses and their classes, network policies, service addresses."""

from alcove.api.kind import Strategy
from alcove.api.kinds.networking import ingresses, networkpolicies, serviceaddresses

STRATEGIES: dict[str, Strategy] = {
    **ingresses.STRATEGIES,
    **networkpolicies.STRATEGIES,
    **serviceaddresses.STRATEGIES,
}
