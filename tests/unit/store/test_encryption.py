"""A stored body can be read only with its key, and only as the object that it was written for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.store.encryption import PLAIN, AesGcmKey, Encryption, Providers, UnreadableBody, key_of

SECRETS = GroupResource("", "secrets")
OLD, NEW = AesGcmKey("old", b"o" * 32), AesGcmKey("new", b"n" * 16)
PASSWORD = Key(SECRETS, TenantId("acme"), "default", "password")
BODY = b'{"metadata":{"name":"password"},"data":{"it":"c3dvcmRmaXNo"}}'


@given(body=st.binary(max_size=100))
def test_a_body_comes_back(body: bytes) -> None:
    assert NEW.open(PASSWORD, NEW.seal(PASSWORD, body)) == body


def test_equal_bodies_are_stored_differently_each_time() -> None:
    sealed = {OLD.seal(PASSWORD, BODY) for _ in range(100)}
    assert len({each.removeprefix(OLD.header)[:32] for each in sealed}) == 100
    assert all(b"password" not in each and b"c3dvcmRmaXNo" not in each for each in sealed)


@pytest.mark.parametrize(
    "other",
    [
        Key(SECRETS, TenantId("evil"), "default", "password"),
        Key(SECRETS, TenantId("acme"), "kube-system", "password"),
        Key(SECRETS, TenantId("acme"), "default", "other"),
        Key(GroupResource("", "configmaps"), TenantId("acme"), "default", "password"),
        Key(SECRETS, TenantId("acme"), "", "default/password"),
    ],
)
def test_a_body_that_was_copied_to_another_object_cannot_be_read(other: Key) -> None:
    with pytest.raises(UnreadableBody, match="the stored bytes were changed"):
        OLD.open(other, OLD.seal(PASSWORD, BODY))


@given(at=st.integers(0, 120), bit=st.integers(0, 7))
def test_a_changed_or_cut_body_cannot_be_read(at: int, bit: int) -> None:
    providers = Providers.of([OLD])
    stored = bytearray(OLD.seal(PASSWORD, BODY))
    cut = bytes(stored[:at])
    stored[at] ^= 1 << bit
    for damaged in (bytes(stored), cut):
        with pytest.raises(UnreadableBody):
            providers.open(PASSWORD, damaged)


def test_the_first_provider_writes_and_all_read() -> None:
    before, after = Providers.of([OLD, None]), Providers.of([NEW, OLD, None])
    stored = before.seal(PASSWORD, BODY)
    assert after.open(PASSWORD, stored) == after.open(PASSWORD, BODY) == BODY
    assert after.is_stale(stored) and after.is_stale(BODY)
    assert not after.is_stale(after.seal(PASSWORD, BODY))


def test_an_error_names_the_key_that_is_missing() -> None:
    stored = OLD.seal(PASSWORD, BODY)
    for providers in (Providers.of([NEW]), PLAIN):
        with pytest.raises(UnreadableBody, match='needs the key "old" of the provider aesgcm'):
            providers.open(PASSWORD, stored)
    assert key_of(stored) == '"old" of the provider aesgcm' and key_of(BODY) == ""


def test_a_key_of_the_same_name_with_other_bytes_is_noticed() -> None:
    with pytest.raises(UnreadableBody, match='"old" is not the one'):
        Providers.of([AesGcmKey("old", b"x" * 32)]).open(PASSWORD, OLD.seal(PASSWORD, BODY))


def test_without_identity_plain_bodies_are_refused() -> None:
    with pytest.raises(UnreadableBody, match="identity"):
        Providers.of([OLD]).open(PASSWORD, BODY)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (SECRETS, "first"),
        (GroupResource("apps", "secrets"), "apps"),
        (GroupResource("apps", "deployments"), "exact"),
        (GroupResource("", "configmaps"), "core"),
        (GroupResource("acme.com", "widgets"), "all"),
    ],
)
def test_the_first_rule_that_names_a_resource_applies(resource: GroupResource, expected: str) -> None:
    rules = {"first": "secrets", "exact": "deployments.apps", "apps": "*.apps", "core": "*.", "all": "*.*"}
    encryption = Encryption(
        [([named], Providers.of([AesGcmKey(key, b"k" * 32)])) for key, named in rules.items()]
    )
    assert [key.name for key in encryption.providers(resource).order if key] == [expected]


def test_what_no_rule_names_is_not_encrypted() -> None:
    encryption = Encryption([(["secrets"], Providers.of([OLD]))])
    assert encryption.providers(GroupResource("", "configmaps")) is PLAIN
