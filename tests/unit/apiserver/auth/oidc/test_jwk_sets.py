"""Key sets: only keys that can verify, within bounds, and only with the algorithms of their type."""

from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from alcove.apiserver.auth.oidc import jwk_sets
from alcove.apiserver.auth.oidc.jwk_sets import KEYS_MAX

RSA_KEY = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())


def rsa_jwk(**fields: Any) -> dict[str, Any]:
    return {**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), **fields}


def ec_jwk(**fields: Any) -> dict[str, Any]:
    return {**ECAlgorithm.to_jwk(P256.public_key(), as_dict=True), **fields}


def parsed(*keys: Any) -> jwk_sets.JwkSet:
    return jwk_sets.parse(orjson.dumps({"keys": list(keys)}))


def test_a_key_has_the_algorithms_of_its_type() -> None:
    ed = OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key(), as_dict=True)
    found = parsed(rsa_jwk(kid="r"), ec_jwk(kid="e"), {**ed, "kid": "o"}, rsa_jwk(kid="p", alg="PS256"))
    assert [key.algorithms[0] for key in found.keys] == ["RS256", "ES256", "EdDSA", "PS256"]
    assert found.find("r", "PS512") and found.find("e", "ES256") and found.find("o", "EdDSA")
    assert found.find("p", "RS256") is None, "a key that names its algorithm is used for that one only"
    assert found.find("e", "RS256") is None and found.find("r", "ES256") is None
    assert found.find("r", "HS256") is None and found.find("r", "none") is None


def test_a_token_without_a_key_id_needs_a_single_key() -> None:
    assert parsed(rsa_jwk(kid="a"), ec_jwk(kid="b")).find("", "ES256")
    assert parsed(ec_jwk(kid="a"), ec_jwk(kid="b")).find("", "ES256") is None


@pytest.mark.parametrize(
    "unusable",
    [
        rsa_jwk(use="enc"),
        rsa_jwk(d="AQAB"),
        rsa_jwk(e="AQAAAAAB" * 2),
        rsa_jwk(n="x" * 5_000),
        rsa_jwk(n="AQAB"),
        rsa_jwk(alg="HS256"),
        {"kty": "oct", "k": "c2VjcmV0"},
        ec_jwk(crv="P-999"),
        ec_jwk(x="!"),
        ec_jwk(kid=7),
        {"kty": "RSA"},
        {},
        "text",
        None,
    ],
)
def test_other_keys_are_left_out(unusable: Any) -> None:
    found = parsed(unusable, ec_jwk(kid="good"))
    assert [key.id for key in found.keys] == ["good"]


def test_a_short_rsa_key_is_left_out() -> None:
    short = rsa.generate_private_key(65537, 1024).public_key()
    assert not parsed(RSAAlgorithm.to_jwk(short, as_dict=True)).keys


def test_a_set_is_bounded_and_must_be_one() -> None:
    assert len(parsed(*(ec_jwk(kid=str(number)) for number in range(KEYS_MAX + 10))).keys) == KEYS_MAX
    for data in (b"", b"[]", b"{}", b'{"keys": {}}', b"<html>"):
        with pytest.raises(ValueError):
            jwk_sets.parse(data)
