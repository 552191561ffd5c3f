"""Jobs: runs pods until enough of them have succeeded, and counts each exactly once."""

from alcove.controllers.jobs.controller import JobController
from alcove.controllers.jobs.finalizers import OrphanedJobPods

__all__ = ["JobController", "OrphanedJobPods"]
