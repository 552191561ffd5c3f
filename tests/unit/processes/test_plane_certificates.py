"""Keys of dedicated planes: what is kept, what is made anew, and what goes on being trusted."""

import time
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from alcove.api.ids import TenantId
from alcove.apiserver.auth.certificates import issued_by
from alcove.controllers.plane_certificates import authorities
from alcove.processes.plane_certificates import plane_certificates
from alcove.testing.authorities import aged

TENANT = TenantId("acme")
own_keys = plane_certificates().own_keys


def authority_of(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


def test_valid_keys_are_kept() -> None:
    made = own_keys(TENANT, {}, True)
    assert own_keys(TENANT, made, True) == made
    assert set(own_keys(TENANT, made, False)) == {"ca.crt", "ca.key", "sa.key"}
    assert authorities(made) == made["ca.crt"]


def test_an_authority_that_expires_soon_is_replaced_and_trusted_until_then() -> None:
    made = own_keys(TENANT, {}, True)
    old = {**made, "ca.crt": aged(made["ca.crt"], made["ca.key"], timedelta(days=300))}
    renewed = own_keys(TENANT, old, True)
    assert renewed["ca.crt"] != old["ca.crt"] and renewed["ca-before.crt"] == old["ca.crt"]
    assert {name for name in made if made[name] != renewed[name]} == {"ca.crt", "ca.key"}, (
        "tokens and etcd stay"
    )
    assert authorities(renewed) == renewed["ca.crt"] + old["ca.crt"]
    assert own_keys(TENANT, renewed, True) == renewed
    expired = {**renewed, "ca-before.crt": aged(made["ca.crt"], made["ca.key"], timedelta(days=-1))}
    assert "ca-before.crt" not in own_keys(TENANT, expired, True)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "sa.key", "etcd-ca.crt", "etcd.crt", "etcd.key"])
def test_whatever_is_missing_or_wrong_is_made_anew(name: str) -> None:
    made = own_keys(TENANT, {}, True)
    without = {each: text for each, text in made.items() if each != name}
    for broken in (without, {**made, name: "no key"}, {**made, name: own_keys(TENANT, {}, True)[name]}):
        again = own_keys(TENANT, broken, True)
        assert own_keys(TENANT, again, True) == again
        key = serialization.load_pem_private_key(again["ca.key"].encode(), None)
        assert key.public_key() == authority_of(again["ca.crt"]).public_key()
        assert issued_by(authority_of(again["etcd.crt"]), authority_of(again["etcd-ca.crt"]))


def test_etcd_has_an_authority_of_its_own() -> None:
    """Users have certificates of the plane's authority, and may not read the store with them."""
    made = own_keys(TENANT, {}, True)
    assert not issued_by(authority_of(made["etcd.crt"]), authority_of(made["ca.crt"]))
    end = authority_of(made["etcd.crt"]).not_valid_after_utc.timestamp()
    assert end - time.time() > 9 * 365 * 86_400
