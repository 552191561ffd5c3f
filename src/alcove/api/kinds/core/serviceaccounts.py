"""ServiceAccounts: the identities of processes in pods."""

from alcove.api.kind import Strategy
from alcove.api.objects import Object


def _keep_names(account: Object) -> None:
    """Keep only the name of a referenced secret; other fields would be misleading."""
    if secrets := account.get("secrets"):
        account["secrets"] = [{"name": secret.get("name", "")} for secret in secrets]


STRATEGY = Strategy(prepare_create=_keep_names, prepare_update=lambda new, _old: _keep_names(new))
