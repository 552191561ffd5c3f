"""Token Secrets of service accounts."""

from typing import Any

import pytest

from alcove.controllers.tokensecrets import ACCOUNT_UID, is_for, without_data


@pytest.mark.parametrize(
    ("uid", "account", "expected"),
    [
        ("1", {"metadata": {"uid": "1"}}, True),
        ("1", {"metadata": {"uid": "2"}}, False),
        (None, {"metadata": {"uid": "2"}}, True),
        ("1", None, False),
    ],
)
def test_a_token_is_for_one_account_not_for_a_name(uid: str | None, account: Any, expected: bool) -> None:
    annotations = {ACCOUNT_UID: uid} if uid else {}
    assert is_for({"metadata": {"annotations": annotations}}, account) is expected


def test_secrets_are_mirrored_without_their_data() -> None:
    kept = without_data({"metadata": {"name": "x", "labels": {}}, "data": {"token": "t"}, "type": "y"})
    assert kept == {"metadata": {"name": "x"}}
