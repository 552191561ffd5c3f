"""Errors of outbound calls."""


class WebhookError(Exception):
    """The webhook could not be reached, or its response is invalid. The message says why."""


class TooManyCalls(WebhookError):
    """The tenant has too many concurrent calls."""

    def __init__(self) -> None:
        super().__init__("too many concurrent webhook calls of this tenant")
