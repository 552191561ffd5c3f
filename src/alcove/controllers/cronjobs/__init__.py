"""CronJobs: jobs made when a schedule is due."""

from alcove.controllers.cronjobs.controller import CronJobs

__all__ = ["CronJobs"]
