"""All errors that a client of the API can get, each a Kubernetes `Status`.

    ApiError
    ├── BadRequest 400
    ├── Unauthorized 401
    ├── Forbidden 403
    ├── NotFound 404
    ├── MethodNotAllowed 405
    ├── NotAcceptable 406
    ├── AlreadyExists 409
    ├── Conflict 409
    ├── Gone 410 (reason Gone) ── Expired 410 (reason Expired)
    ├── TooLarge 413
    ├── UnsupportedMediaType 415
    ├── Invalid 422
    ├── TooManyRequests 429
    ├── InternalError 500
    ├── ServiceUnavailable 503
    └── Timeout 504

The server translates an error to a response in one place (`status`), the client back in one
place (`from_status`).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Struct

from alcove.api.fields import FieldError
from alcove.api.ids import GroupResource
from alcove.api.objects import Object


class StatusCause(Struct, frozen=True):
    reason: str
    message: str
    field: str = ""


class Details(Struct, frozen=True):
    """The machine-readable part of a `Status`: the object's name, group, kind (or resource) and causes."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiError(Exception):
    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, details: Details | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.metadata: Object = {}
        """Metadata of the `Status`: for an expired list it carries the token to continue with."""


class BadRequest(ApiError):
    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    code = 401
    reason = "Unauthorized"

    def __init__(self, message: str = "Unauthorized", details: Details | None = None) -> None:
        super().__init__(message, details)


class Forbidden(ApiError):
    code = 403
    reason = "Forbidden"

    @classmethod
    def of(cls, resource: GroupResource, name: str, reason: str) -> "Forbidden":
        """`pods "web" is forbidden: why`; without a name `pods is forbidden: why`."""
        subject = f'{resource} "{name}"' if name else str(resource)
        details = Details(name=name, group=resource.group, kind=resource.resource)
        return cls(f"{subject} is forbidden: {reason}", details)


class NotFound(ApiError):
    code = 404
    reason = "NotFound"

    @classmethod
    def of(cls, resource: GroupResource, name: str) -> "NotFound":
        details = Details(name=name, group=resource.group, kind=resource.resource)
        return cls(f'{resource} "{name}" not found', details)

    @classmethod
    def path(cls) -> "NotFound":
        """The path is not served."""
        return cls("the server could not find the requested resource", Details())


class MethodNotAllowed(ApiError):
    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(ApiError):
    code = 406
    reason = "NotAcceptable"


class AlreadyExists(ApiError):
    code = 409
    reason = "AlreadyExists"

    @classmethod
    def of(cls, resource: GroupResource, name: str) -> "AlreadyExists":
        details = Details(name=name, group=resource.group, kind=resource.resource)
        return cls(f'{resource} "{name}" already exists', details)


class Conflict(ApiError):
    code = 409
    reason = "Conflict"

    @classmethod
    def of(cls, resource: GroupResource, name: str, reason: str) -> "Conflict":
        """`Operation cannot be fulfilled on pods "web": why`."""
        details = Details(name=name, group=resource.group, kind=resource.resource)
        return cls(f'Operation cannot be fulfilled on {resource} "{name}": {reason}', details)


class Gone(ApiError):
    code = 410
    reason = "Gone"


class Expired(Gone):
    """The revision or continue token is older than the retained history."""

    reason = "Expired"


class TooLarge(ApiError):
    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    code = 422
    reason = "Invalid"

    @classmethod
    def of(cls, group: str, kind: str, name: str, errors: Sequence[FieldError]) -> "Invalid":
        """`Pod "web" is invalid: spec.containers: Required value`; several errors are put in brackets."""
        causes = tuple(StatusCause(error.reason, error.body, error.field) for error in errors)
        texts = list(dict.fromkeys(str(error) for error in errors))
        message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        qualified = f"{kind}.{group}" if group else kind
        details = Details(name=name, group=group, kind=kind, causes=causes)
        return cls(f'{qualified} "{name}" is invalid: {message}', details)


class TooManyRequests(ApiError):
    code = 429
    reason = "TooManyRequests"

    @classmethod
    def after(cls, seconds: int, message: str) -> "TooManyRequests":
        return cls(message, Details(retry_after_seconds=seconds))


class InternalError(ApiError):
    code = 500
    reason = "InternalError"


class ServiceUnavailable(ApiError):
    code = 503
    reason = "ServiceUnavailable"


class Timeout(ApiError):
    code = 504
    reason = "Timeout"


def status(error: ApiError) -> Object:
    """Convert the error to a `Status` object."""
    body: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": error.metadata,
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    }
    if error.details is not None:
        body["details"] = _details(error.details)
    return body


def _details(details: Details) -> Object:
    causes = [
        {"reason": cause.reason, "message": cause.message, **({"field": cause.field} if cause.field else {})}
        for cause in details.causes
    ]
    fields: Object = {
        "name": details.name,
        "group": details.group,
        "kind": details.kind,
        "uid": details.uid,
        "causes": causes,
        "retryAfterSeconds": details.retry_after_seconds,
    }
    return {field: value for field, value in fields.items() if value}


def _tree(root: type[ApiError]) -> list[type[ApiError]]:
    return [root, *(leaf for branch in root.__subclasses__() for leaf in _tree(branch))]


def from_status(body: Object) -> ApiError:
    """Convert a server's `Status` to an error; an unknown reason falls back to the code."""
    reason, code = body.get("reason"), body.get("code")
    classes = _tree(ApiError)[1:]
    by_reason = [kind for kind in classes if kind.reason == reason]
    by_code = [kind for kind in classes if kind.code == code]
    chosen = (by_reason or by_code or [ApiError])[0]
    error = chosen.__new__(chosen)
    ApiError.__init__(error, str(body.get("message", "")), _read_details(body.get("details")))
    return error


def _read_details(raw: Any) -> Details | None:
    if not isinstance(raw, dict):
        return None
    causes = tuple(
        StatusCause(cause.get("reason", ""), cause.get("message", ""), cause.get("field", ""))
        for cause in raw.get("causes") or ()
    )
    return Details(
        name=raw.get("name", ""),
        group=raw.get("group", ""),
        kind=raw.get("kind", ""),
        uid=raw.get("uid", ""),
        causes=causes,
        retry_after_seconds=raw.get("retryAfterSeconds", 0),
    )
