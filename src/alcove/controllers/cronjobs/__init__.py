"""CronJobs: jobs made when a schedule is due."""

from alcove.controllers.cronjobs.controller import CronJobController

__all__ = ["CronJobController"]
