"""What the server says of a namespace or tenant that is on its way out."""

from __future__ import annotations

from alcove.api.errors import Forbidden


def is_terminating(error: Forbidden) -> bool:
    """The namespace or tenant is on its way out: there is nothing left to make in it."""
    causes = error.details.causes if error.details else ()
    return any(cause.reason in ("NamespaceTerminating", "TenantTerminating") for cause in causes)
