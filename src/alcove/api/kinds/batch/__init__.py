"""batch: jobs that run to completion, once or on a schedule."""

from alcove.api.kind import Strategy
from alcove.api.kinds.batch import cronjobs, jobs

STRATEGIES: dict[str, Strategy] = {
    "cronjobs": cronjobs.STRATEGY,
    "jobs": jobs.STRATEGY,
}
