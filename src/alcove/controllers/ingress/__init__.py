"""Ingresses: which host names are served, and by which nodes.

controller   updates status and events of Ingresses

Parsing of an Ingress and the rules for the owners of host names are in `network/ingress`.
"""

from alcove.controllers.ingress.controller import IngressController

__all__ = ["IngressController"]
