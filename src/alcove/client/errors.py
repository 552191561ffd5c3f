"""Errors between a client and an API server, besides the server's error responses.

    ClientError
    ├── Unreachable          no response: the server is down, or the connection broke
    │   └── PlaneStopped     the API server is stopped while its tenant is asleep; nothing was sent
    ├── MalformedResponse    a response that is not of the Kubernetes API, or not the one that was asked for
    ├── PlaneTooLarge        a dedicated plane has more objects than a process keeps of one
    ├── ServerBehind         a mirror has not yet received this process' own writes
    ├── PlaneLeft            the plane of a key is no longer served
    ├── NotPermitted         this process may no longer write: another one leads
    └── BadKubeconfig        the kubeconfig is missing or invalid

The server's error responses are `api.errors.ApiError`.
"""


class ClientError(Exception):
    pass


class Unreachable(ClientError):
    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the request was written: if so, it is unknown whether the server acted on it."""


class PlaneStopped(Unreachable):
    def __init__(self) -> None:
        super().__init__("the API server is stopped while its tenant is asleep", sent=False)


class MalformedResponse(ClientError):
    pass


class PlaneTooLarge(ClientError):
    pass


class ServerBehind(ClientError):
    pass


class PlaneLeft(ClientError):
    pass


class NotPermitted(ClientError):
    pass


class BadKubeconfig(ClientError):
    pass
