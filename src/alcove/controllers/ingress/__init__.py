"""Ingresses: whose host names are, and where they are served.

wanted       an Ingress as this system reads it (pure)
claims       which tenant has which name (pure)
controller   notes the decision in ring0, and tells tenants by status and events
"""

from alcove.controllers.ingress.controller import Ingresses

__all__ = ["Ingresses"]
