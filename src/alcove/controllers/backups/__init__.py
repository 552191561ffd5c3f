"""Backups of tenants by schedule, and before a tenant is deleted."""

from alcove.controllers.backups.controller import BackupController

__all__ = ["BackupController"]
