"""Service accounts: names that processes go by."""

from alcove.api.kind import Strategy
from alcove.api.objects import Object


def _keep_names(account: Object) -> None:
    """A mention of a secret is its name; anything else in it would only mislead."""
    if secrets := account.get("secrets"):
        account["secrets"] = [{"name": secret.get("name", "")} for secret in secrets]


STRATEGY = Strategy(prepare_create=_keep_names, prepare_update=lambda new, _old: _keep_names(new))
