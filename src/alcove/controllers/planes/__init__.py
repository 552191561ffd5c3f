"""Dedicated planes: the API servers that ring0 runs for tenants with `spec.controlPlane.mode: Dedicated`."""

from alcove.controllers.planes.controller import PlaneController
from alcove.controllers.planes.shared_definitions import SharedDefinitions

__all__ = ["PlaneController", "SharedDefinitions"]
