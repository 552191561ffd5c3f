"""Authorization checks in admission policies: `authorizer.group('apps').resource('deployments').check('create')`.

A chain of calls builds an `AuthorizationQuery`; `check` evaluates it. The value of the variable `authorizer`
carries the function that does so (`Ask`).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from alcove.api import names
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.types import BOOL, STRING, opaque
from alcove.api.cel.values import Opaque

AUTHORIZATION = Library()
AUTHORIZER = opaque("kubernetes.authorization.Authorizer")
PATH_CHECK = opaque("kubernetes.authorization.PathCheck")
GROUP_CHECK = opaque("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = opaque("kubernetes.authorization.ResourceCheck")
DECISION = opaque("kubernetes.authorization.Decision")
_member = AUTHORIZATION.member

CHECK_COST = 2_000
"""Cost of one check, which reads roles for some microseconds."""


class AuthorizationQuery(Struct, frozen=True):
    """An access check. An empty service account means the user of the request."""

    service_account: tuple[str, str] = ("", "")
    """Namespace and name."""
    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class AuthorizationDecision(Struct, frozen=True):
    allowed: bool
    reason: str = ""
    error: str = ""


Ask = Callable[[AuthorizationQuery], AuthorizationDecision]


class AuthorizerValue(Opaque):
    __slots__ = ("ask", "query")
    cel_type = AUTHORIZER

    def __init__(self, ask: Ask, query: AuthorizationQuery = AuthorizationQuery()) -> None:  # noqa: B008  # it is frozen
        self.ask = ask
        self.query = query


class PathCheckValue(AuthorizerValue):
    __slots__ = ()
    cel_type = PATH_CHECK


class GroupCheckValue(AuthorizerValue):
    __slots__ = ()
    cel_type = GROUP_CHECK


class ResourceCheckValue(AuthorizerValue):
    __slots__ = ()
    cel_type = RESOURCE_CHECK


class DecisionValue(Opaque):
    __slots__ = ("result",)
    cel_type = DECISION

    def __init__(self, result: AuthorizationDecision) -> None:
        self.result = result


def _required(text: str, description: str) -> str:
    if not text.strip():
        raise CelError(f"{description} must not be empty")
    return text


@_member("serviceAccount", (AUTHORIZER, STRING, STRING), AUTHORIZER)
def _service_account(value: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if names.dns_subdomain(name):
        raise CelError("Invalid service account name")
    if names.dns_label(namespace):
        raise CelError("Invalid service account namespace")
    return AuthorizerValue(value.ask, replace(value.query, service_account=(namespace, name)))


@_member("path", (AUTHORIZER, STRING), PATH_CHECK)
def _path(value: AuthorizerValue, path: str) -> PathCheckValue:
    return PathCheckValue(value.ask, replace(value.query, path=_required(path, "path")))


@_member("group", (AUTHORIZER, STRING), GROUP_CHECK)
def _group(value: AuthorizerValue, group: str) -> GroupCheckValue:
    return GroupCheckValue(value.ask, replace(value.query, group=group))


@_member("resource", (GROUP_CHECK, STRING), RESOURCE_CHECK)
def _resource(value: GroupCheckValue, resource: str) -> ResourceCheckValue:
    return ResourceCheckValue(value.ask, replace(value.query, resource=_required(resource, "resource")))


def _narrow(field: str) -> Callable[[ResourceCheckValue, str], ResourceCheckValue]:
    def narrow(value: ResourceCheckValue, text: str) -> ResourceCheckValue:
        return ResourceCheckValue(value.ask, replace(value.query, **{field: text}))

    return narrow


for _field in ("subresource", "namespace", "name"):
    _member(_field, (RESOURCE_CHECK, STRING), RESOURCE_CHECK)(_narrow(_field))
# Roles have no selectors, so a check narrowed by one has the result of the unrestricted check.
for _selector in ("fieldSelector", "labelSelector"):
    _member(_selector, (RESOURCE_CHECK, STRING), RESOURCE_CHECK)(lambda value, _text: value)


def _check(value: AuthorizerValue, verb: str) -> DecisionValue:
    return DecisionValue(value.ask(replace(value.query, verb=verb)))


_member("check", (PATH_CHECK, STRING), DECISION, cost=lambda _value, _verb: CHECK_COST)(_check)
_member("check", (RESOURCE_CHECK, STRING), DECISION, cost=lambda _value, _verb: CHECK_COST)(_check)
_member("allowed", (DECISION,), BOOL)(lambda decision: decision.result.allowed)
_member("reason", (DECISION,), STRING)(lambda decision: decision.result.reason)
_member("errored", (DECISION,), BOOL)(lambda decision: bool(decision.result.error))
_member("error", (DECISION,), STRING)(lambda decision: decision.result.error)
