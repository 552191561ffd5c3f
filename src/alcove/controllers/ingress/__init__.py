"""Ingresses: whose host names are, and where they are served.

book         who wants and has which name
controller   notes the decision in ring0, and tells tenants by status and events

What an Ingress says and which claim wins is decided in `network/ingress`.
"""

from alcove.controllers.ingress.controller import IngressController

__all__ = ["IngressController"]
