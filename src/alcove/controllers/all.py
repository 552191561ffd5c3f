"""The list of all controllers. Adding one is its file and a line here."""

from __future__ import annotations

from alcove.controllers.controller import Controller

CONTROLLERS: tuple[type[Controller], ...] = ()
