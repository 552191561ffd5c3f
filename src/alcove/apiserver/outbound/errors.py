"""What goes wrong on the way out."""


class WebhookError(Exception):
    """The webhook could not be reached, or did not answer as it should. The message says why."""


class TooManyCalls(WebhookError):
    """The tenant has too many calls under way already."""

    def __init__(self) -> None:
        super().__init__("too many webhook calls of this tenant are under way")
