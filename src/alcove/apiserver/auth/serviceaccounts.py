"""The user name and groups of a service account, the same in every tenant."""

from msgspec import Struct

from alcove.apiserver.identity import ALL_AUTHENTICATED

USER_PREFIX = "system:serviceaccount:"
ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"


class ServiceAccountName(Struct, frozen=True):
    namespace: str
    name: str


def user_name(namespace: str, name: str) -> str:
    return f"{USER_PREFIX}{namespace}:{name}"


def parse_user_name(user: str) -> ServiceAccountName | None:
    """The service account with this user name; None for other users."""
    if not user.startswith(USER_PREFIX):
        return None
    namespace, colon, name = user.removeprefix(USER_PREFIX).partition(":")
    if not (namespace and colon and name) or ":" in name:
        return None
    return ServiceAccountName(namespace, name)


def groups(namespace: str) -> tuple[str, ...]:
    return (ALL_SERVICE_ACCOUNTS, f"{ALL_SERVICE_ACCOUNTS}:{namespace}", ALL_AUTHENTICATED)
