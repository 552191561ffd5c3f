"""The static token file: the users of its tokens, and invalid files, which are rejected as a whole."""

from pathlib import Path

import pytest

from alcove.api.errors import Unauthorized
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.auth.statictokens import StaticTokens

NOW = 1_800_000_000.0
TOKEN = "0123456789abcdef"
GOOD = f"""
- token: {TOKEN}
  user: admin
  tenant: system
  groups: [system:masters]
  uid: u1
- token: fedcba9876543210
  user: ann
  tenant: acme
  expires: 2027-01-15T09:00:00Z
"""


def opened(tmp_path: Path, text: str, now: float = NOW) -> StaticTokens:
    path = tmp_path / "tokens.yaml"
    path.write_text(text)
    return StaticTokens.open(path, lambda: now)


def test_a_token_authenticates_its_user(tmp_path: Path) -> None:
    found = opened(tmp_path, GOOD).find(TOKEN)
    assert found is not None
    assert (found.tenant, found.user, found.uid) == ("system", "admin", "u1")
    assert found.groups == ("system:masters", "system:authenticated")


def test_a_token_ends_when_it_says(tmp_path: Path) -> None:
    found = opened(tmp_path, GOOD).find("fedcba9876543210")
    assert found is not None and found.tenant == "acme"
    with pytest.raises(Unauthorized, match="expired at 2027-01-15T09:00:00Z"):
        opened(tmp_path, GOOD, NOW + 3600).find("fedcba9876543210")


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "\udcff"])
def test_other_tokens_are_rejected(tmp_path: Path, token: str) -> None:
    assert opened(tmp_path, GOOD).find(token) is None


def test_json_is_accepted_too(tmp_path: Path) -> None:
    text = f'[{{"token": "{TOKEN}", "user": "admin", "tenant": "system"}}]'
    assert opened(tmp_path, text).find(TOKEN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {user: a, tenant: t}", "token"),
        (f"- {{token: {TOKEN}, user: a}}", "tenant"),
        (f"- {{token: {TOKEN}, user: a, tenant: all}}", "stands for all tenants"),
        (f"- {{token: {TOKEN}, user: a, tenant: ''}}", "DNS label"),
        (f"- {{token: {TOKEN}, user: '', tenant: t}}", "the user is missing"),
        ("- {token: short, user: a, tenant: t}", "16 or more ASCII"),
        (f"- {{token: {TOKEN}, user: a, tenant: t, expires: 2027-01-15T09:00:00}}", "time zone"),
        (f"- {{token: {TOKEN}, user: a, tenant: t, admin: true}}", "admin"),
        (f"- {{token: {TOKEN}, user: a, tenant: t}}\n" * 2, "entry 1: duplicate token"),
        ("just words", r"tokens\.yaml"),
        ("{", r"tokens\.yaml"),
    ],
)
def test_an_invalid_file_is_rejected_without_revealing_a_token(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(KeyFileError, match=message) as refusal:
        opened(tmp_path, text)
    assert TOKEN not in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"token file .*nowhere not found"):
        StaticTokens.open(tmp_path / "nowhere", lambda: NOW)
