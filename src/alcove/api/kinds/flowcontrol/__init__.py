"""flowcontrol.apiserver.k8s.io: which requests of a tenant's users go to which priority level, and the level's share."""

from alcove.api.kind import Strategy
from alcove.api.kinds.flowcontrol import flowschemas, prioritylevels

STRATEGIES: dict[str, Strategy] = {**flowschemas.STRATEGIES, **prioritylevels.STRATEGIES}
