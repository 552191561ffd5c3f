"""Parses request paths in the three equivalent path forms of tenancy.

/api/v1/tenants/T/namespaces/N/pods/P      full path
/tenants/T/api/v1/namespaces/N/pods/P      prefix, for unmodified clients
/api/v1/namespaces/N/pods/P                short path: the caller's tenant
"""

from urllib.parse import unquote

from msgspec import Struct, structs

from alcove.api.errors import BadRequest
from alcove.api.ids import TenantId
from alcove.api.short_cache import cache_short
from alcove.apiserver.streams.proxy_targets import path_of

SUBRESOURCES_OF_TENANT = frozenset({"content", "finalize", "status"})
SUBRESOURCES_OF_NAMESPACE = frozenset({"status", "finalize"})


class RequestTarget(Struct, frozen=True):
    """The target of a request. `tenant` is None on a short path; `resource` is empty if the path names
    none."""

    tenant: TenantId | None
    path: str
    """The path below the tenant, for targets that are not resources: `/version`, `/api`, `/openapi/v3/…`."""
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """The path after the subresource, for proxy requests."""

    @property
    def is_resource(self) -> bool:
        return self.resource != ""


@cache_short(8192)
def parse(path: str) -> RequestTarget:
    """Parses a raw path. Raises BadRequest if a segment is not allowed or two tenants are named."""
    if "/proxy/" in path and (proxied := path_of(path)) is not None:
        # The rest is the backend's path, so it is neither decoded nor checked.
        return structs.replace(_parse(proxied.prefix), rest=proxied.rest.removeprefix("/"))
    return _parse(path)


def _parse(path: str) -> RequestTarget:
    segments = [_segment(raw) for raw in path.split("/")[1:]]
    if segments and segments[-1] == "":
        segments.pop()
    tenant: TenantId | None = None
    if len(segments) >= 2 and segments[0] == "tenants":
        tenant = TenantId(segments[1])
        segments = segments[2:]
    below = "/" + "/".join(segments)
    match segments:
        case ["api", version, *rest] if rest:
            return _resource(tenant, below, "", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _resource(tenant, below, group, version, rest)
    return RequestTarget(tenant, below)


def _segment(raw: str) -> str:
    segment = unquote(raw) if "%" in raw else raw
    if segment in (".", "..") or "/" in segment or "\x00" in segment:
        raise BadRequest(f'the path segment "{raw}" is not allowed')
    return segment


def _resource(
    tenant: TenantId | None, below: str, group: str, version: str, rest: list[str]
) -> RequestTarget:
    if rest[0] == "tenants" and len(rest) > 2 and not (group == "" and _is_tenant_itself(rest)):
        inner = TenantId(rest[1])
        if tenant is not None and tenant != inner:
            raise BadRequest(f'the path names two tenants, "{tenant}" and "{inner}"; name one')
        tenant, rest = inner, rest[2:]
        below = (
            f"/api/{version}/{'/'.join(rest)}" if not group else f"/apis/{group}/{version}/{'/'.join(rest)}"
        )
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_itself(rest):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource, *further = (*rest, "", "", "")[: max(3, len(rest))]
    if resource == "namespaces" and group == "" and name:
        # As in Kubernetes, a namespace object is authorized in the namespace of its own name.
        namespace = name
    return RequestTarget(
        tenant, below, group, version, resource, namespace, name, subresource, "/".join(further)
    )


def _is_tenant_itself(rest: list[str]) -> bool:
    return len(rest) == 3 and rest[2] in SUBRESOURCES_OF_TENANT


def _is_namespace_itself(rest: list[str]) -> bool:
    return len(rest) == 3 and rest[2] in SUBRESOURCES_OF_NAMESPACE
