"""Acting as somebody else: `Impersonate-*` headers, each of which the caller must be allowed to use.

The identity that comes out is in the caller's own tenant. Only ring0's callers may name another one,
with `Impersonate-Tenant`, and then need the verb `impersonate` on that tenant too.
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


class _Asked(Struct, frozen=True):
    user: str
    tenant: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


def impersonate(caller: Identity, headers: Iterable[tuple[str, str]], authorizer: Authorizer) -> Identity:
    """Whom the caller acts as; the caller itself where no header asks for another.

    `headers` are all of the request's, a repeated one as several pairs. Raises BadRequest, Forbidden.
    """
    asked = _read(headers)
    if asked is None:
        return caller
    tenant = _tenant(caller, asked)
    for access in _needed(caller, tenant, asked):
        authorizer.require(caller, access)
    return Identity(tenant, asked.user, _groups(asked), asked.uid, asked.extra)


def _read(headers: Iterable[tuple[str, str]]) -> _Asked | None:
    values: dict[str, list[str]] = {}
    for name, value in headers:
        lowered = name.lower()
        if lowered.startswith(HEADER_PREFIX):
            values.setdefault(lowered, []).append(value)
    if not values:
        return None
    user = values.get("impersonate-user", [""])[0]
    if not user:
        raise BadRequest(f"Impersonate-User is missing beside {', '.join(sorted(values))}")
    extra = {
        unquote(name.removeprefix(_EXTRA_PREFIX)): tuple(messages)
        for name, messages in values.items()
        if name.startswith(_EXTRA_PREFIX)
    }
    return _Asked(
        user=user,
        tenant=values.get("impersonate-tenant", [""])[0],
        uid=values.get("impersonate-uid", [""])[0],
        groups=tuple(dict.fromkeys(values.get("impersonate-group", ()))),
        extra=extra,
    )


def _tenant(caller: Identity, asked: _Asked) -> TenantId:
    if not asked.tenant:
        return caller.tenant
    try:
        return subjects.checked_tenant(asked.tenant)
    except SubjectError as error:
        raise BadRequest(f"Impersonate-Tenant: {error}") from error


def _needed(caller: Identity, tenant: TenantId, asked: _Asked) -> Iterable[Access]:
    """Everything the caller must be allowed. A tenant's caller that names another tenant fails each."""

    def access(group: str, resource: str, name: str, subresource: str = "", namespace: str = "") -> Access:
        return Access("impersonate", tenant, group, resource, subresource, namespace, name)

    if tenant != caller.tenant:
        yield Access("impersonate", SYSTEM, "", "tenants", name=tenant)
    account = serviceaccounts.parse_user_name(asked.user)
    if account is not None:
        yield access("", "serviceaccounts", account.name, namespace=account.namespace)
    else:
        yield access("", "users", asked.user)
    for group in asked.groups:
        yield access("", "groups", group)
    for key, values in asked.extra.items():
        for value in values:
            yield access(_AUTHENTICATION, "userextras", value, subresource=key)
    if asked.uid:
        yield access(_AUTHENTICATION, "uids", asked.uid)


def _groups(asked: _Asked) -> tuple[str, ...]:
    """The groups asked for; none: those a service account has by nature. And whether one is known at all."""
    account = serviceaccounts.parse_user_name(asked.user)
    groups = asked.groups or (serviceaccounts.groups(account.namespace) if account else ())
    if asked.user == ANONYMOUS:
        return tuple(dict.fromkeys((*groups, ALL_UNAUTHENTICATED)))
    if ALL_AUTHENTICATED in groups or ALL_UNAUTHENTICATED in groups:
        return groups
    return (*groups, ALL_AUTHENTICATED)
