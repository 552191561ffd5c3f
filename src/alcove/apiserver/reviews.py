"""Reviews: queries about identity and permissions that are made by creating an object, which is not stored.

SubjectAccessReview and its variants, SelfSubjectRulesReview (`kubectl auth can-i --list`), SelfSubjectReview
(`kubectl auth whoami`), TokenReview. The tenant is the request's: a reviewed subject or token belongs to that
tenant. "Self" is the caller, with the caller's permissions in that tenant.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from alcove.api import fields, meta, objects
from alcove.api.errors import BadRequest, Invalid, Unauthorized
from alcove.api.fields import FieldError
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth.authenticate import Authenticator
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.policy import RbacGrant, rules_of

AUTHORIZATION = "authorization.k8s.io"
TENANT_EXTRA = "alcove/tenant"
"""The key of the tenant in a user's `extra`; the kinds of Kubernetes have no field for it."""

_RULE_BYTES = 128
"""What a rule counts when it is decided whether rules are listed in a thread."""
_SERVERS_METADATA = frozenset(("tenant", "managedFields", "selfLink", "creationTimestamp"))


class Reviews:
    def __init__(
        self,
        authorizer: Authorizer,
        authenticator: Authenticator,
        clock: Callable[[], float],
        threads: ComputeThreads,
    ) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._clock = clock
        self._threads = threads

    async def review(
        self, kind: str, obj: Object, identity: Identity, tenant: TenantId, namespace: str = ""
    ) -> Object:
        """The object with the result in `status`; `obj` is not changed. Raises ApiError."""
        match kind:
            case "SubjectAccessReview":
                status = self._subject_access(obj, tenant)
            case "LocalSubjectAccessReview":
                status = self._local_subject_access(obj, tenant, namespace)
            case "SelfSubjectAccessReview":
                status = self._self_subject_access(obj, identity, tenant)
            case "SelfSubjectRulesReview":
                status = await self._self_subject_rules(obj, identity, tenant)
            case "SelfSubjectReview":
                status = {"userInfo": _user_info(identity)}
            case "TokenReview":
                status = await self._token(obj, tenant)
            case _:
                raise BadRequest(f"{kind} is not a review kind")
        metadata: Object = {}
        if kind == "SelfSubjectReview":
            metadata["creationTimestamp"] = meta.format_time(self._clock())
        if kind == "LocalSubjectAccessReview":
            metadata["namespace"] = namespace
        return {**obj, "metadata": metadata, "status": status}

    def _subject_access(self, review: Object, tenant: TenantId) -> Object:
        spec = review.get("spec") or {}
        _check(review, _subject_errors(spec) + _attribute_errors(spec))
        return self._access_status(_subject(spec, tenant), spec, tenant)

    def _local_subject_access(self, review: Object, tenant: TenantId, namespace: str) -> Object:
        spec = review.get("spec") or {}
        errors = _subject_errors(spec) + _attribute_errors(spec)
        reviewed_namespace = objects.get(spec, "resourceAttributes", "namespace", default="")
        if spec.get("resourceAttributes") is not None and reviewed_namespace != namespace:
            errors.append(
                fields.invalid(
                    "spec.resourceAttributes.namespace", reviewed_namespace, "must match metadata.namespace"
                )
            )
        if spec.get("nonResourceAttributes") is not None:
            attributes = spec["nonResourceAttributes"]
            errors.append(
                fields.invalid("spec.nonResourceAttributes", attributes, "disallowed on this kind of request")
            )
        _check(review, errors, namespace)
        return self._access_status(_subject(spec, tenant), spec, tenant)

    def _self_subject_access(self, review: Object, identity: Identity, tenant: TenantId) -> Object:
        spec = review.get("spec") or {}
        _check(review, _attribute_errors(spec))
        return self._access_status(identity, spec, tenant)

    def _access_status(self, identity: Identity, spec: Object, tenant: TenantId) -> Object:
        decision = self._authorizer.authorize(identity, _access(spec, tenant))
        status: Object = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return status

    async def _self_subject_rules(self, review: Object, identity: Identity, tenant: TenantId) -> Object:
        namespace = objects.get(review, "spec", "namespace", default="")
        if not namespace:
            raise BadRequest("no namespace on request")
        grants = self._authorizer.grants_for(identity, tenant, namespace)
        size_bytes = _RULE_BYTES * sum(len(grant.rules) for grant in grants)
        status: Object = await self._threads.for_size(identity.tenant, size_bytes, partial(_rules, grants))
        return status

    async def _token(self, review: Object, tenant: TenantId) -> Object:
        token = objects.get(review, "spec", "token", default="")
        if not token:
            raise BadRequest("spec.token is required")
        audiences = objects.get(review, "spec", "audiences", default=())
        try:
            reviewed = await self._authenticator.review(token, tenant, audiences)
        except Unauthorized as error:
            return {"authenticated": False, "error": error.message.removeprefix("Unauthorized: ")}
        return {
            "authenticated": True,
            "user": _user_info(reviewed.identity),
            "audiences": list(reviewed.audiences),
        }


def _rules(grants: Sequence[RbacGrant]) -> Object:
    rules = [rule.to_object() for rule in rules_of(grants)]
    return {
        "resourceRules": [rule for rule in rules if "resources" in rule],
        "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
        "incomplete": False,
    }


def _check(review: Object, errors: list[FieldError], namespace: str = "") -> None:
    metadata = {
        field: value
        for field, value in (review.get("metadata") or {}).items()
        if value and field not in _SERVERS_METADATA
    }
    if namespace and metadata.get("namespace") == namespace:
        del metadata["namespace"]
    if metadata:
        message = "must be empty except for namespace" if namespace else "must be empty"
        errors.append(fields.invalid("metadata", metadata, message))
    if errors:
        raise Invalid.of(AUTHORIZATION, review.get("kind", ""), "", errors)


def _attribute_errors(spec: Object) -> list[FieldError]:
    attributes = [spec.get("resourceAttributes"), spec.get("nonResourceAttributes")]
    if (attributes[0] is None) != (attributes[1] is None):
        return []
    message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return [fields.invalid("spec", attributes[1], message)]


def _subject_errors(spec: Object) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    message = "at least one of user or group must be specified"
    return [fields.invalid("spec.user", spec.get("user", ""), message)]


def _subject(spec: Object, tenant: TenantId) -> Identity:
    return Identity(tenant, spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))


def _access(spec: Object, tenant: TenantId) -> Access:
    attributes: dict[str, Any] | None = spec.get("resourceAttributes")
    if attributes is None:
        path_attributes = spec["nonResourceAttributes"]
        # An empty path must not be taken for a query about a resource.
        return Access(path_attributes.get("verb", ""), tenant, path=path_attributes.get("path") or "/")
    return Access(
        attributes.get("verb", ""),
        tenant,
        attributes.get("group", ""),
        attributes.get("resource", ""),
        attributes.get("subresource", ""),
        attributes.get("namespace", ""),
        attributes.get("name", ""),
    )


def _user_info(identity: Identity) -> Object:
    extra = {key: list(values) for key, values in identity.extra.items()}
    user_info: Object = {
        "username": identity.user,
        "uid": identity.uid,
        "groups": list(identity.groups),
        "extra": {**extra, TENANT_EXTRA: [identity.tenant]},
    }
    return {field: value for field, value in user_info.items() if value}
