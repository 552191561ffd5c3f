"""All controllers in one process, for tests with a `LocalServer`."""

from __future__ import annotations

from pathlib import Path

from alcove.testing.local import LocalProcess
from alcove.testing.server import LocalServer


class LocalControllers(LocalProcess):
    """`with LocalControllers(server, directory): …`; several instances compete for the lease."""

    def __init__(
        self, server: LocalServer, directory: Path, *options: str, kubeconfig: Path | None = None
    ) -> None:
        """`kubeconfig` if they do not connect to the server directly."""
        own = str(kubeconfig or server.admin_kubeconfig)
        super().__init__("controllers", directory / "controllers.log", "--kubeconfig", own, *options)
