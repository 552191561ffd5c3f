"""All controllers in a process of their own, for tests, beside a `LocalServer`."""

from __future__ import annotations

from pathlib import Path

from alcove.testing.local import LocalProcess
from alcove.testing.server import LocalServer


class LocalControllers(LocalProcess):
    """`with LocalControllers(server, directory): …`; several at once compete for the lease."""

    def __init__(
        self, server: LocalServer, directory: Path, *options: str, kubeconfig: Path | None = None
    ) -> None:
        """`kubeconfig` where they do not go straight to the server."""
        own = str(kubeconfig or server.admin_kubeconfig)
        super().__init__("controllers", directory / "controllers.log", "--kubeconfig", own, *options)
