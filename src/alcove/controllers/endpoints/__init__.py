"""Endpoints and EndpointSlices: the pods behind a service, in the service's network only."""

from alcove.controllers.endpoints.legacy import EndpointsController
from alcove.controllers.endpoints.mirroring import EndpointSliceMirroring
from alcove.controllers.endpoints.slices import EndpointSlices

__all__ = ["EndpointSliceMirroring", "EndpointSlices", "EndpointsController"]
