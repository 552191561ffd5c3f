"""Dedicated planes: the API servers that ring0 runs for tenants with `spec.controlPlane.mode: Dedicated`."""

from alcove.controllers.planes.controller import PlaneController

__all__ = ["PlaneController"]
