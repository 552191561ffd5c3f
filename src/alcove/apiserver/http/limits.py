"""How large a request may be, and what is said to larger ones."""

from alcove.api.errors import ApiError, TooLarge

BODY_BYTES_MAX = 3 * 1024 * 1024
HEAD_BYTES_MAX = 64 * 1024


class HeadTooLarge(ApiError):
    code = 431
    reason = "RequestHeaderFieldsTooLarge"


def head_too_large() -> HeadTooLarge:
    return HeadTooLarge(f"request line and headers may have at most {HEAD_BYTES_MAX} bytes")


def too_large() -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {BODY_BYTES_MAX} bytes; send a smaller object")
