"""API errors about creating objects in a namespace or tenant that is terminating or does not exist."""

from __future__ import annotations

from alcove.api.errors import ApiError, Forbidden, NotFound


def is_terminating(error: Exception | None) -> bool:
    """Whether the namespace or tenant is terminating, so that nothing can be created in it any more."""
    if not isinstance(error, Forbidden):
        return False
    causes = error.details.causes if error.details else ()
    return any(cause.reason in ("NamespaceTerminating", "TenantTerminating") for cause in causes)


def is_namespace_or_tenant_missing(error: ApiError) -> bool:
    """Whether the namespace or tenant to create in was not found.

    A controller that has it in a mirror cannot know whether it was deleted or has not reached this server
    yet: it retries until the mirror no longer has it.
    """
    if not isinstance(error, NotFound) or error.details is None:
        return False
    return not error.details.group and error.details.kind in ("namespaces", "tenants")
