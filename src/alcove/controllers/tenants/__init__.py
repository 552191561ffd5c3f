"""Tenants: creates the initial objects of new tenants and deletes the content of terminating ones."""

from alcove.controllers.tenants.controller import TenantController

__all__ = ["TenantController"]
