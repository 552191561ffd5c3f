"""Tenants come with their first objects and go with everything that is in them."""

from alcove.controllers.tenants.controller import TenantController

__all__ = ["TenantController"]
