"""Errors of HTTP messages and connections.

HttpError                     has the status with which a server responds
├── MalformedMessage (400)    not HTTP/1.1, or ambiguous
├── HeadTooLarge (431)
├── BodyTooLarge (413)
└── HandshakeFailed           the connection cannot be encrypted
ConnectionError               (built in) the connection was lost; the outcome of the request is unknown
└── RequestNotSent            it was lost before the request was written
"""


class HttpError(Exception):
    status = 500

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class MalformedMessage(HttpError):
    status = 400


class HeadTooLarge(HttpError):
    status = 431


class BodyTooLarge(HttpError):
    status = 413


class HandshakeFailed(HttpError):
    pass


class RequestNotSent(ConnectionError):
    pass
