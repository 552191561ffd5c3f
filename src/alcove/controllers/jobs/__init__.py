"""Jobs: pods that run until enough of them have succeeded, each counted exactly once."""

from alcove.controllers.jobs.controller import JobController
from alcove.controllers.jobs.finalizers import OrphanedJobPods

__all__ = ["JobController", "OrphanedJobPods"]
