"""resource.k8s.io: devices that nodes have, and claims of them."""

from alcove.api.kind import Strategy
from alcove.api.kinds.resource import claims, classes, slices

STRATEGIES: dict[str, Strategy] = {
    **claims.STRATEGIES,
    **classes.STRATEGIES,
    **slices.STRATEGIES,
}
