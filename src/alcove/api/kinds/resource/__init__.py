"""resource.k8s.io: devices of nodes, and claims for them."""

from alcove.api.kind import Strategy
from alcove.api.kinds.resource import claims, devices, slices, taintrules

STRATEGIES: dict[str, Strategy] = {
    **claims.STRATEGIES,
    **devices.STRATEGIES,
    **slices.STRATEGIES,
    **taintrules.STRATEGIES,
}
