"""Jobs: pods that run until enough of them have succeeded, each counted exactly once."""

from alcove.controllers.jobs.controller import Jobs
from alcove.controllers.jobs.finalizers import OrphanedJobPods

__all__ = ["Jobs", "OrphanedJobPods"]
