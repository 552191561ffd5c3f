"""What the server says of a namespace or tenant that is on its way out, or that it does not know."""

from __future__ import annotations

from alcove.api.errors import ApiError, Forbidden, NotFound


def is_terminating(error: Forbidden) -> bool:
    """The namespace or tenant is on its way out: there is nothing left to make in it."""
    causes = error.details.causes if error.details else ()
    return any(cause.reason in ("NamespaceTerminating", "TenantTerminating") for cause in causes)


def is_place_missing(error: ApiError) -> bool:
    """The server knows no such namespace or tenant to make something in. Who has it in a mirror cannot tell whether
    it is gone or not there yet for this server: it tries again, until the mirror has lost it too."""
    if not isinstance(error, NotFound) or error.details is None:
        return False
    return not error.details.group and error.details.kind in ("namespaces", "tenants")
