"""Paths that are not resources: health, version, metrics, discovery, OpenAPI."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable

from alcove.api.errors import MethodNotAllowed, NotFound
from alcove.apiserver.auth.authenticate import PUBLIC_PATHS
from alcove.apiserver.call import ApiCall
from alcove.apiserver.responses import json_response
from alcove.http.messages import HttpResponse

Answer = HttpResponse | None | Awaitable[HttpResponse | None]
Route = Callable[[ApiCall], Answer]

KUBERNETES_VERSION = "v1.37.0"
"""The Kubernetes version that is reported to clients."""


class Routes:
    """`exact` paths are below the tenant's root; `prefixes` match all paths that start with them."""

    def __init__(self, exact: dict[str, Route], prefixes: dict[str, Route], ready: Callable[[], str]) -> None:
        self._exact = exact
        self._prefixes = prefixes
        self._ready = ready
        """Returns an empty string if the server is ready, else a message."""

    def public(self, call: ApiCall) -> HttpResponse:
        """Serves the paths that everybody may read."""
        match call.target.path:
            case "/version" | "/version/":
                return json_response(200, version())
            case "/readyz" if message := self._ready():
                return HttpResponse(500, message.encode(), b"text/plain; charset=utf-8")
        return HttpResponse(200, b"ok", b"text/plain; charset=utf-8")

    def answer(self, call: ApiCall) -> Answer:
        path = call.target.path
        if path in PUBLIC_PATHS and call.verb in ("get", "head"):
            return self.public(call)
        route = self._exact.get(path) or self._prefix(path)
        if route is None and path not in PUBLIC_PATHS:
            raise NotFound.path()
        if route is None or call.verb not in ("get", "head"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        return route(call)

    def _prefix(self, path: str) -> Route | None:
        return next((route for prefix, route in self._prefixes.items() if path.startswith(prefix)), None)


def version() -> dict[str, str]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES_VERSION}+alcove",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
