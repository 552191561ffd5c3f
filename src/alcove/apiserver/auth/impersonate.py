"""Impersonation: `Impersonate-*` headers, each of which needs a permission of the caller.

The impersonated identity is in the caller's tenant. Only callers of ring0 may name another tenant, with
`Impersonate-Tenant`, and then need the verb `impersonate` on that tenant too.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from msgspec import Struct

from alcove.api.errors import BadRequest
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth import serviceaccounts, subjects
from alcove.apiserver.auth.subjects import SubjectError
from alcove.apiserver.identity import ALL_AUTHENTICATED, Identity
from alcove.apiserver.rbac.authorize import Access, Authorizer

HEADER_PREFIX = "impersonate-"
_EXTRA_PREFIX = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
ANONYMOUS = "system:anonymous"
ALL_UNAUTHENTICATED = "system:unauthenticated"


class _ImpersonationRequest(Struct, frozen=True):
    user: str
    tenant: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


def impersonate(
    caller: Identity, headers: Iterable[tuple[str, str]], authorizer: Authorizer, *, now: bool = False
) -> Identity:
    """The effective identity: the impersonated one, or `caller` if there are no such headers.

    A header that was sent several times is several pairs in `headers`. Raises BadRequest, Forbidden; for `now` see
    `Authorizer.authorize`.
    """
    requested = _read(headers)
    if requested is None:
        return caller
    tenant = _tenant(caller, requested)
    for access in _needed(caller, tenant, requested):
        authorizer.require(caller, access, now=now)
    return Identity(tenant, requested.user, _groups(requested), requested.uid, requested.extra)


def headers_of(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The Impersonate-* headers among a request's header fields, each as often as it was sent."""
    return [
        (name.decode("latin-1"), value.decode("utf-8", "replace"))
        for name, value in fields
        if name[:12].lower() == b"impersonate-"
    ]


def _read(headers: Iterable[tuple[str, str]]) -> _ImpersonationRequest | None:
    values: dict[str, list[str]] = {}
    for name, value in headers:
        lowered = name.lower()
        if lowered.startswith(HEADER_PREFIX):
            values.setdefault(lowered, []).append(value)
    if not values:
        return None
    user = values.get("impersonate-user", [""])[0]
    if not user:
        raise BadRequest(f"Impersonate-User is required with {', '.join(sorted(values))}")
    extra = {
        unquote(name.removeprefix(_EXTRA_PREFIX)): tuple(texts)
        for name, texts in values.items()
        if name.startswith(_EXTRA_PREFIX)
    }
    return _ImpersonationRequest(
        user=user,
        tenant=values.get("impersonate-tenant", [""])[0],
        uid=values.get("impersonate-uid", [""])[0],
        groups=tuple(dict.fromkeys(values.get("impersonate-group", ()))),
        extra=extra,
    )


def _tenant(caller: Identity, requested: _ImpersonationRequest) -> TenantId:
    if not requested.tenant:
        return caller.tenant
    try:
        return subjects.checked_tenant(requested.tenant)
    except SubjectError as error:
        raise BadRequest(f"Impersonate-Tenant: {error}") from error


def _needed(caller: Identity, tenant: TenantId, requested: _ImpersonationRequest) -> Iterable[Access]:
    """All permissions that the caller needs. A caller that is not of ring0 has none of them in another
    tenant."""

    def access(group: str, resource: str, name: str, subresource: str = "", namespace: str = "") -> Access:
        return Access("impersonate", tenant, group, resource, subresource, namespace, name)

    if tenant != caller.tenant:
        yield Access("impersonate", SYSTEM, "", "tenants", name=tenant)
    account = serviceaccounts.parse_user_name(requested.user)
    if account is not None:
        yield access("", "serviceaccounts", account.name, namespace=account.namespace)
    else:
        yield access("", "users", requested.user)
    for group in requested.groups:
        yield access("", "groups", group)
    for key, values in requested.extra.items():
        for value in values:
            yield access(_AUTHENTICATION, "userextras", value, subresource=key)
    if requested.uid:
        yield access(_AUTHENTICATION, "uids", requested.uid)


def _groups(requested: _ImpersonationRequest) -> tuple[str, ...]:
    """The requested groups, or a service account's default groups; and system:authenticated or its
    opposite."""
    account = serviceaccounts.parse_user_name(requested.user)
    groups = requested.groups or (serviceaccounts.groups(account.namespace) if account else ())
    if requested.user == ANONYMOUS:
        return tuple(dict.fromkeys((*groups, ALL_UNAUTHENTICATED)))
    if ALL_AUTHENTICATED in groups or ALL_UNAUTHENTICATED in groups:
        return groups
    return (*groups, ALL_AUTHENTICATED)
