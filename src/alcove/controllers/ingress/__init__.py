"""Ingresses: which tenant has which host name, and which nodes serve it.

host_index   the host names that Ingresses request, and the tenants that hold them
controller   records the holders in ring0, and updates status and events of Ingresses

Parsing of an Ingress and the rules for conflicting claims are in `network/ingress`.
"""

from alcove.controllers.ingress.controller import IngressController

__all__ = ["IngressController"]
