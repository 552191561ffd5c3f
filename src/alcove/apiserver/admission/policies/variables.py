"""The variables of policies' and match conditions' expressions: their types and values.

`object`, `oldObject` and `params` are dynamic; `request` and `namespaceObject` have declared fields.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from alcove.api.cel.library.authorization import (
    AUTHORIZER,
    RESOURCE_CHECK,
    Ask,
    AuthorizationDecision,
    AuthorizationQuery,
    AuthorizerValue,
    ResourceCheckValue,
)
from alcove.api.cel.schema_types import schema_type
from alcove.api.cel.types import DYN, CelType, TypeField, TypeKind
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, CelBudget
from alcove.apiserver.computing import on_loop
from alcove.apiserver.identity import ALL_AUTHENTICATED, Identity
from alcove.apiserver.rbac.authorize import Access, Authorizer

_TEXT: Object = {"type": "string"}
_TEXTS: Object = {"type": "array", "items": _TEXT}
_TIME: Object = {"type": "string", "format": "date-time"}
_NUMBER: Object = {"type": "integer"}


def _object(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def _map_of(values: Object) -> Object:
    return {"type": "object", "additionalProperties": values}


_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(username=_TEXT, uid=_TEXT, groups=_TEXTS, extra=_map_of(_TEXTS)),
    dryRun={"type": "boolean"},
)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_map_of(_TEXT),
        annotations=_map_of(_TEXT),
        uid=_TEXT,
        creationTimestamp=_TIME,
        deletionTimestamp=_TIME,
        deletionGracePeriodSeconds=_NUMBER,
        generation=_NUMBER,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(
        phase=_TEXT,
        conditions={
            "type": "array",
            "items": _object(type=_TEXT, status=_TEXT, reason=_TEXT, message=_TEXT, lastTransitionTime=_TIME),
        },
    ),
)


def _declared(schema: Object) -> CelType:
    found = schema_type(schema)
    assert found is not None
    return _spelled_out(found)


def _spelled_out(of: CelType) -> CelType:
    """The type with unescaped field names: `namespace` instead of `__namespace__`."""
    if of.kind is not TypeKind.OBJECT:
        return of
    fields = {field.key: replace(field, type=_spelled_out(field.type)) for field in of.fields.values()}
    return CelType(TypeKind.OBJECT, of.name, (), fields, lambda: of.deep)


def _request_type() -> CelType:
    declared = _declared(_REQUEST)
    # The options of a request are of several kinds, so they are dynamic.
    fields = {**declared.fields, "options": TypeField("options", DYN)}
    return CelType(TypeKind.OBJECT, "kubernetes.AdmissionRequest", (), fields)


_NAMESPACE_TYPE = _declared(_NAMESPACE)
_REQUEST_TYPE = _request_type()

ORDER = (
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "authorizer",
    "authorizer.requestResource",
    "variables",
)
"""The order of `Activation.values`."""


def declarations(*, has_params: bool, variables: Mapping[str, CelType]) -> dict[str, CelType]:
    """The types of the declared variables; `params` is declared only if there are parameters."""
    declared = {
        "object": DYN,
        "oldObject": DYN,
        "request": _REQUEST_TYPE,
        "namespaceObject": _NAMESPACE_TYPE,
        "params": DYN,
        "authorizer": AUTHORIZER,
        "authorizer.requestResource": RESOURCE_CHECK,
        "variables": CelType(
            TypeKind.OBJECT, "kubernetes.variables", (), {n: TypeField(n, t) for n, t in variables.items()}
        ),
    }
    if not has_params:
        del declared["params"]
    return declared


class Activation:
    """The values for one write, one matched kind and one parameter object."""

    __slots__ = ("budget", "values")

    def __init__(self, has_params: bool, given: Mapping[str, Any], budget: CelBudget) -> None:
        self.budget = budget
        names = ORDER if has_params else tuple(name for name in ORDER if name != "params")
        self.values = [given.get(name) for name in names]

    def bind_variables(self, lazy: Any) -> None:
        self.values[-1] = lazy


def activation(
    attributes: Attributes,
    matched: Kind,
    obj: Object | None,
    old: Object | None,
    namespace: Object | None,
    ask: Ask,
    *,
    has_params: bool = False,
    params: Object | None = None,
) -> Activation:
    authorizer = AuthorizerValue(ask)
    given = {
        "object": obj,
        "oldObject": old,
        "request": request(attributes, matched),
        "namespaceObject": namespace,
        "params": params,
        "authorizer": authorizer,
        "authorizer.requestResource": ResourceCheckValue(ask, _requested(attributes)),
    }
    return Activation(has_params, given, attributes.cel_budget)


def request(attributes: Attributes, matched: Kind) -> Object:
    """The AdmissionRequest without its objects and without empty fields."""
    requested = attributes.requested or attributes.kind
    identity = attributes.identity
    fields: Object = {
        "kind": _kind(matched),
        "resource": _resource(matched),
        "subResource": attributes.subresource,
        "requestKind": _kind(requested),
        "requestResource": _resource(requested),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation.value,
        "userInfo": {
            "username": identity.user,
            "uid": identity.uid,
            "groups": list(identity.groups),
            "extra": {name: list(values) for name, values in identity.extra.items()},
        },
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    return {name: value for name, value in fields.items() if value != ""}


def _kind(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.resource}


def _requested(attributes: Attributes) -> AuthorizationQuery:
    kind = attributes.requested or attributes.kind
    return AuthorizationQuery(
        group=kind.group,
        resource=kind.resource,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
    )


def asker(authorizer: Authorizer, attributes: Attributes) -> Ask:
    """Authorization checks for expressions: by the roles of the write's tenant, with the caller's own
    identity. They are made on the event loop, because they read the cache."""
    tenant = attributes.tenant
    loop = get_running_loop()

    def ask(query: AuthorizationQuery) -> AuthorizationDecision:
        namespace, name = query.service_account
        identity = _service_account(attributes, namespace, name) if name else attributes.identity
        if query.path:
            access = Access(query.verb, tenant, path=query.path)
        else:
            access = Access(
                query.verb,
                tenant,
                query.group,
                query.resource,
                query.subresource,
                query.namespace,
                query.name,
            )
        decision = on_loop(loop, partial(authorizer.authorize, identity, access))
        return AuthorizationDecision(decision.allowed, decision.reason)

    return ask


def _service_account(attributes: Attributes, namespace: str, name: str) -> Identity:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", ALL_AUTHENTICATED)
    return Identity(attributes.tenant, f"system:serviceaccount:{namespace}:{name}", groups)


class LazyVariables(dict[str, Any]):
    """`variables.x`: evaluated when first read, then cached; a failure is cached too."""

    def __init__(self, makers: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__()
        self._makers = makers
        self._failures: dict[str, Exception] = {}

    def get(self, name: str, default: Any = None) -> Any:
        if name in self:
            return self[name]
        if name in self._failures:
            raise self._failures[name]
        maker = self._makers.get(name)
        if maker is None:
            return default
        try:
            self[name] = value = maker()
        except Exception as failure:
            self._failures[name] = failure
            raise
        return value
