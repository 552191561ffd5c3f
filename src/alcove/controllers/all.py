"""The list of all controllers. Adding one is its file and a line here."""

from __future__ import annotations

from alcove.controllers.controller import Controller
from alcove.controllers.namespaces import Namespaces
from alcove.controllers.rootca import RootCa
from alcove.controllers.serviceaccounts import ServiceAccounts
from alcove.controllers.tenants import Tenants

CONTROLLERS: tuple[type[Controller], ...] = (
    Tenants,
    Namespaces,
    ServiceAccounts,
    RootCa,
)
