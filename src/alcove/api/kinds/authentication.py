"""authentication.k8s.io: token reviews and token requests. Never stored."""

from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError, invalid
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import child, fill
from alcove.api.objects import Object

TOKEN_SECONDS_DEFAULT = 3600
TOKEN_SECONDS_MIN = 600
TOKEN_SECONDS_MAX = 1 << 32


def validate_token_review(review: Object) -> list[FieldError]:
    if not (review.get("spec") or {}).get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    return []


def default_token_request(request: Object) -> None:
    fill(child(request, "spec"), "expirationSeconds", TOKEN_SECONDS_DEFAULT)


def validate_token_request(request: Object) -> list[FieldError]:
    seconds = (request.get("spec") or {}).get("expirationSeconds", 0)
    path = "spec.expirationSeconds"
    if seconds < TOKEN_SECONDS_MIN:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > TOKEN_SECONDS_MAX:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


STRATEGIES: dict[str, Strategy] = {
    "tokenreviews": Strategy(validate=validate_token_review),
    "selfsubjectreviews": Strategy(),
    "tokenrequests": Strategy(default=default_token_request, validate=validate_token_request),
}
"""`tokenrequests` is the body of `serviceaccounts/token`; no resource has this name."""
