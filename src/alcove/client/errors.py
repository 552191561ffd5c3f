"""What can go wrong between a client and an API server, beside the server's own answers.

    ClientError
    ├── Unreachable      no answer: the server is away, or the connection broke
    ├── Malformed        an answer that is not the API's
    ├── Behind           a mirror has not yet seen this process' own writes
    ├── PlaneLeft        the plane that a key names is no longer served
    ├── NotPermitted     this process may no longer write: another one leads
    └── BadKubeconfig    the file does not say how to reach a server

The server's refusals are `api.errors.ApiError`.
"""


class ClientError(Exception):
    pass


class Unreachable(ClientError):
    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """The request was written: whether the server acted on it, nobody knows."""


class MalformedResponse(ClientError):
    pass


class ServerBehind(ClientError):
    pass


class PlaneLeft(ClientError):
    pass


class NotPermitted(ClientError):
    pass


class BadKubeconfig(ClientError):
    pass
