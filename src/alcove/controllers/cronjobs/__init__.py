"""CronJobs: creates jobs on a schedule."""

from alcove.controllers.cronjobs.controller import CronJobController

__all__ = ["CronJobController"]
