"""Encodes the AdmissionReview for a webhook and decodes its response. Pure: no I/O."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError, BadRequest, Details, TooLarge, from_status
from alcove.api.fields import quote
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema.body import VALUES_MAX, parse_json
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.webhooks.review_objects import ReviewObjects
from alcove.apiserver.outbound.errors import WebhookError

GROUP = "admission.k8s.io"
WARNINGS_MAX = 32
WARNING_LENGTH_MAX = 1024
ANNOTATIONS_MAX = 32
ANNOTATION_LENGTH_MAX = 4096
DENIAL_LENGTH_MAX = 16_384
"""Characters of a rejection's message; the rest is cut off. Processes of ring0 log such messages."""

_OPTIONS = {Operation.CREATE: "CreateOptions", Operation.UPDATE: "UpdateOptions"}
_OPTION_FIELDS = ("fieldManager", "fieldValidation")
_UNDECODABLE_PATCH = "received undecodable patch in webhook response"


class WebhookVerdict(Struct, frozen=True):
    is_allowed: bool
    patch: Any
    """A decoded JSON patch; None if there is nothing to change."""
    result: Object
    warnings: tuple[str, ...]
    annotations: dict[str, str]
    size_bytes: int
    """Of the webhook's response."""


class Denied(ApiError):
    """A webhook's rejection, with the code and reason that the webhook chose."""

    def __init__(self, name: str, result: Object) -> None:
        message = str(result.get("message") or result.get("reason") or "")[:DENIAL_LENGTH_MAX]
        denied = f"admission webhook {quote(name)} denied the request"
        super().__init__(
            f"{denied}: {message}" if message else f"{denied} without explanation", _details(result)
        )
        code = result.get("code")
        self.code = code if isinstance(code, int) and 400 <= code < 600 else 400  # type: ignore[misc]
        self.reason = str(result.get("reason") or "")[:DENIAL_LENGTH_MAX]  # type: ignore[misc]


def _details(result: Object) -> Details | None:
    try:
        return from_status(result).details
    except (AttributeError, TypeError):
        # A tenant's server may return anything; invalid details are dropped.
        return None


def encode(attributes: Attributes, version: str, uid: str, matched: Kind, shown: ReviewObjects) -> bytes:
    requested = attributes.requested or attributes.kind
    is_of_object = shown.kind == matched.gvk
    identity = attributes.identity
    request = {
        "uid": uid,
        "kind": _kind(shown.kind),
        "resource": _resource(matched),
        "subResource": attributes.subresource,
        "requestKind": _kind(requested.gvk if is_of_object else shown.kind),
        "requestResource": _resource(requested),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation.value,
        "userInfo": {
            "username": identity.user,
            **({"uid": identity.uid} if identity.uid else {}),
            "groups": list(identity.groups),
            **(
                {"extra": {key: list(each) for key, each in identity.extra.items()}} if identity.extra else {}
            ),
        },
        "object": shown.obj,
        "oldObject": shown.old,
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    sent = {field: value for field, value in request.items() if value != ""}
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": sent})


def _kind(kind: Any) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.resource}


def _options(attributes: Attributes) -> Object:
    """The request's CreateOptions, UpdateOptions or DeleteOptions."""
    requested = attributes.options
    if attributes.operation is Operation.DELETE:
        return {**requested, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    options: Object = {
        "kind": _OPTIONS.get(attributes.operation, "CreateOptions"),
        "apiVersion": "meta.k8s.io/v1",
        **{field: requested[field] for field in _OPTION_FIELDS if requested.get(field)},
    }
    if attributes.dry_run:
        options["dryRun"] = ["All"]
    return options


def decode(answer: bytes, version: str, uid: str, *, may_change: bool) -> WebhookVerdict:
    """The webhook's result. Raises WebhookError."""
    try:
        return _decoded(answer, version, uid, may_change)
    except _InvalidResponse as error:
        raise WebhookError(f"received invalid webhook response: {error}") from error


class _InvalidResponse(Exception):
    pass


def _decoded(answer: bytes, version: str, uid: str, may_change: bool) -> WebhookVerdict:
    review = _parsed(answer, "it is not JSON")
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise _InvalidResponse("webhook response was absent")
    if version == "v1":
        _check_v1(review, response, uid)
    allowed, result = response.get("allowed", False), response.get("status")
    if not isinstance(allowed, bool):
        raise _InvalidResponse("response.allowed must be true or false")
    return WebhookVerdict(
        allowed,
        _patch(response, version, may_change),
        result if isinstance(result, dict) else {},
        _texts(response.get("warnings")),
        _annotations(response.get("auditAnnotations")),
        len(answer),
    )


def _check_v1(review: Object, response: Object, uid: str) -> None:
    if response.get("uid") != uid:
        raise _InvalidResponse(
            f"expected response.uid={quote(uid)}, got {quote(str(response.get('uid') or ''))}"
        )
    expected = (f"{GROUP}/v1", "AdmissionReview")
    got = (review.get("apiVersion"), review.get("kind"))
    if got != expected:
        shown = f"{got[0] or ''}, Kind={got[1] or ''}"
        raise _InvalidResponse(f"expected webhook response of {expected[0]}, Kind={expected[1]}, got {shown}")


def _patch(response: Object, version: str, may_change: bool) -> Any:
    patch, kind = response.get("patch"), response.get("patchType")
    if version == "v1":
        _check_patch(patch, kind, may_change)
    if not patch or not may_change:
        return None
    try:
        text = base64.b64decode(patch, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise _InvalidResponse(_UNDECODABLE_PATCH) from error
    return _parsed(text, _UNDECODABLE_PATCH) or None


def _parsed(text: bytes, message: str) -> Any:
    """The value of a JSON text; `message` says that it is none."""
    try:
        return parse_json(text)
    except BadRequest as error:
        raise _InvalidResponse(message) from error
    except TooLarge as error:
        raise _InvalidResponse(f"it has more than {VALUES_MAX} values") from error


def _check_patch(patch: Any, kind: Any, may_change: bool) -> None:
    if not may_change:
        for field, value in (("patch", patch), ("patchType", kind)):
            if value:
                raise _InvalidResponse(f"validating webhook may not return response.{field}")
        return
    if patch and kind is None:
        raise _InvalidResponse("webhook returned response.patch but not response.patchType")
    if not patch and kind is not None:
        raise _InvalidResponse("webhook returned response.patchType but not response.patch")
    if kind not in (None, "JSONPatch"):
        raise _InvalidResponse(f"unsupported patch type {quote(str(kind))}")


def _texts(value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else []
    return tuple(text[:WARNING_LENGTH_MAX] for text in texts[:WARNINGS_MAX] if isinstance(text, str))


def _annotations(annotations: Any) -> dict[str, str]:
    pairs = list(annotations.items())[:ANNOTATIONS_MAX] if isinstance(annotations, dict) else []
    return {key: value[:ANNOTATION_LENGTH_MAX] for key, value in pairs if isinstance(value, str)}
