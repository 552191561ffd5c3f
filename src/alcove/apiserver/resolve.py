"""Resolves a target to a verb and a kind; raises the 403, 404 or 405 for targets that are not served.

Access to the tenant is checked first, from the path alone: a response about another tenant reveals nothing
about its contents, nor whether it exists.
"""

from __future__ import annotations

from alcove.api.errors import Forbidden, MethodNotAllowed, NotAcceptable, NotFound
from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.resources import NODES, TENANTS
from alcove.apiserver.call import ApiCall
from alcove.apiserver.negotiate import ResponseForm, negotiate
from alcove.apiserver.nodes import READ
from alcove.apiserver.paths import RequestTarget
from alcove.apiserver.rbac.authorize import Access, forbidden
from alcove.apiserver.reader import ServedKinds

_OBJECT_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
    "OPTIONS": "options",
}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_PATH_VERBS = {
    "GET": "get",
    "HEAD": "head",
    "POST": "post",
    "PUT": "put",
    "PATCH": "patch",
    "DELETE": "delete",
}


def check_reach(call: ApiCall) -> None:
    """Raises Forbidden for another tenant than the caller's, unless the caller belongs to ring0.

    Discovery of another tenant is answered with that of the caller's own: kubectl shows no message of a discovery
    that is refused, and then shows that of the request that follows it.
    """
    identity = call.identity
    if call.tenant == identity.tenant or identity.is_system:
        return
    if not _is_discovery(call):
        raise forbidden(identity, _access_by_path(call.target, call.tenant))
    call.tenant = identity.tenant


def _is_discovery(call: ApiCall) -> bool:
    root = call.target.path.split("/")[1:2]
    return not call.target.is_resource and call.verb == "get" and root in (["api"], ["apis"], ["openapi"])


def _access_by_path(target: RequestTarget, tenant: TenantId) -> Access:
    if not target.is_resource:
        return Access("get", tenant, path=target.path)
    return Access(
        "get" if target.name else "list",
        tenant,
        target.group,
        target.resource,
        target.subresource,
        target.namespace,
        target.name,
    )


def verb_of(call: ApiCall) -> str:
    """The verb of a request for a resource. Raises MethodNotAllowed."""
    method, target = call.request.method, call.target
    table = _OBJECT_VERBS if target.name else _COLLECTION_VERBS
    verb = table.get(method)
    if verb is None:
        raise _not_allowed()
    if verb in ("get", "list") and not target.subresource and call.request.raw_query and call.flag("watch"):
        return "watch"
    return verb


def path_verb_of(call: ApiCall) -> str:
    return _PATH_VERBS.get(call.request.method, call.request.method.lower())


def kind_of(kinds: ServedKinds, call: ApiCall) -> Kind:
    """The kind that the path names, as served to the tenant. Raises NotFound, Forbidden, MethodNotAllowed."""
    target, tenant, verb = call.target, call.tenant, call.verb
    if tenant == ALL and (verb not in ("list", "watch") or target.name):
        raise MethodNotAllowed('"all" tenants can only be listed and watched; name one tenant')
    home = SYSTEM if tenant == ALL else tenant
    kind = kinds.find(home, target.group, target.version, target.resource)
    if kind is None and tenant == ALL:
        kind = _custom_anywhere(kinds, call)
    if kind is None or (target.rest and target.subresource != "proxy"):
        raise NotFound.path()
    if kind.scope is Scope.RING0 and tenant not in (SYSTEM, ALL):
        _check_ring0(kind, call)
    _check_scope(kind, target, verb)
    _check_verb(kind, target, verb)
    return kind


def _custom_anywhere(kinds: ServedKinds, call: ApiCall) -> Kind | None:
    """A custom resource listed over all tenants. Tenants' CRDs of one name may differ, so only metadata is
    served."""
    target = call.target
    kind = kinds.find_anywhere(target.group, target.version, target.resource)
    if kind is not None and negotiate(call.request.headers.get("accept", "")) is not ResponseForm.METADATA:
        raise NotAcceptable(
            f"{kind.group_resource} may differ between tenants: to list it over all tenants, accept "
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        )
    return kind


def _check_ring0(kind: Kind, call: ApiCall) -> None:
    """Raises NotFound or Forbidden for ring0's kinds in a tenant; nodes may be read."""
    if kind.group_resource == NODES and call.verb in READ and not call.target.subresource:
        return
    if kind.group_resource == TENANTS and not call.identity.is_system:
        raise Forbidden.of(
            TENANTS,
            call.target.name,
            f'User "{call.identity.user}" cannot {call.verb} resource "tenants" in API group "" '
            f'in the tenant "{call.tenant}"',
        )
    raise NotFound.path()


def _check_scope(kind: Kind, target: RequestTarget, verb: str) -> None:
    if kind.scope is Scope.NAMESPACE:
        if not target.namespace and target.name:
            raise NotFound.path()
        if not target.namespace and verb not in ("list", "watch"):
            raise _not_allowed()
    elif target.namespace and kind.resource != "namespaces":
        raise NotFound.path()


def _check_verb(kind: Kind, target: RequestTarget, verb: str) -> None:
    if not target.subresource:
        if verb not in kind.verbs:
            raise _not_allowed()
        if verb == "create" and target.name:
            raise _not_allowed()
        return
    found = next((sub for sub in kind.subresources if sub.name == target.subresource), None)
    if found is None:
        raise NotFound.path()
    # Discovery does not list it: what is behind a proxy may have any method.
    if verb not in found.verbs and not (verb == "options" and found.name == "proxy"):
        raise _not_allowed()


def _not_allowed() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource")
