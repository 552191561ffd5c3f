"""apps: workload controllers, and ControllerRevisions."""

from alcove.api.kind import Strategy
from alcove.api.kinds.apps import daemonsets, deployments, replicasets, revisions, statefulsets

STRATEGIES: dict[str, Strategy] = {
    "controllerrevisions": revisions.STRATEGY,
    "daemonsets": daemonsets.STRATEGY,
    "deployments": deployments.STRATEGY,
    "replicasets": replicasets.STRATEGY,
    "statefulsets": statefulsets.STRATEGY,
}
