"""The core group: strategies by resource."""

from alcove.api.kind import Strategy
from alcove.api.kinds.core import pods

STRATEGIES: dict[str, Strategy] = {
    "pods": pods.STRATEGY,
}
