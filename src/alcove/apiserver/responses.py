"""API responses: JSON objects, and errors as Status objects."""

import orjson

from alcove.api.errors import ApiError, BadRequest, InternalError, TooLarge, status
from alcove.http.errors import BodyTooLarge, HeadTooLarge, HttpError, MalformedMessage
from alcove.http.messages import HttpResponse


class HeadersTooLarge(ApiError):
    code = 431
    reason = "RequestHeaderFieldsTooLarge"


def json_response(code: int, value: object) -> HttpResponse:
    return HttpResponse(code, orjson.dumps(value))


def error_response(error: ApiError) -> HttpResponse:
    """Translates an error to a response with a Status object; all errors pass here."""
    response = json_response(error.code, status(error))
    if error.details is not None and error.details.retry_after_seconds:
        response.headers = [(b"Retry-After", str(error.details.retry_after_seconds).encode())]
    if error.code == 401:
        response.headers = [(b"WWW-Authenticate", b'Bearer realm="alcove"')]
    return response


def http_error_response(error: HttpError) -> HttpResponse:
    """The response to a request that the HTTP server rejects."""
    return error_response(api_error(error))


def api_error(error: HttpError) -> ApiError:
    match error:
        case BodyTooLarge():
            return TooLarge(f"Request entity too large: {error}; send a smaller object")
        case HeadTooLarge():
            return HeadersTooLarge(str(error))
        case MalformedMessage():
            return BadRequest(str(error))
    return InternalError(str(error))
