"""Signing keys verify what they signed and nothing else, and are published by OpenID discovery."""

import base64
from pathlib import Path

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import PyJWK

from alcove.api.ids import TenantId
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.auth.signingkeys import BadSignature, SigningKeys, key_id
from alcove.apiserver.auth.tokens import BoundObject, TokenObjectRef, Tokens
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
PAYLOAD = b'{"sub":"ann"}'


def public_pem(key: certificates.PublicKey | ed25519.Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def test_the_key_survives_restarts(tmp_path: Path) -> None:
    token = SigningKeys.open(tmp_path).sign(PAYLOAD)
    assert SigningKeys.open(tmp_path).verify(token).payload == PAYLOAD


def test_an_rsa_key_works_too(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "sa.key").write_bytes(certificates.to_pem(key))
    keys = SigningKeys.open(tmp_path)
    assert keys.verify(keys.sign(PAYLOAD)).payload == PAYLOAD
    assert keys.algorithms() == ["RS256"]


def test_after_a_change_of_keys_old_tokens_are_still_good(tmp_path: Path) -> None:
    old = SigningKeys.open(tmp_path)
    token = old.sign(PAYLOAD)
    key = certificates.load_private_key(tmp_path, (tmp_path / "sa.key").read_bytes())
    (tmp_path / "sa.key").unlink()
    with pytest.raises(BadSignature, match="key that is not this server's"):
        SigningKeys.open(tmp_path).verify(token)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    (tmp_path / "sa.pub").write_bytes(public_pem(other) + public_pem(key.public_key()))
    new = SigningKeys.open(tmp_path)
    assert new.verify(token).payload == PAYLOAD
    assert new.algorithms() == ["ES256", "RS256"]


def test_the_published_keys_verify(tmp_path: Path) -> None:
    keys = SigningKeys.open(tmp_path)
    (published,) = orjson.loads(keys.jwks())["keys"]
    assert published["use"] == "sig" and "d" not in published
    assert jwt.decode(keys.sign(PAYLOAD), PyJWK(published), algorithms=["ES256"]) == {"sub": "ann"}


def test_a_relying_party_verifies_a_token_by_discovery_alone() -> None:
    keys = SigningKeys(certificates.new_key())
    tokens = Tokens(keys, MemoryReader(), lambda: 1_000_000_000.0, base_url="https://api.example.com:6443/")
    issuer = "https://api.example.com:6443/tenants/acme"
    found = orjson.loads(keys.openid_configuration(tokens.issuer(ACME)))
    assert found["issuer"] == issuer
    assert found["jwks_uri"] == f"{issuer}/openid/v1/jwks"
    assert found["id_token_signing_alg_values_supported"] == ["ES256"]
    published = jwt.PyJWKSet.from_json(keys.jwks().decode())
    token = tokens.issue(BoundObject(ACME, "default", TokenObjectRef("ci", "u")), ["vault"], 3600)
    claims = jwt.decode(
        token,
        published[jwt.get_unverified_header(token)["kid"]],
        algorithms=found["id_token_signing_alg_values_supported"],
        audience="vault",
        issuer=issuer,
        options={"verify_exp": False},
    )
    assert claims["sub"] == "system:serviceaccount:default:ci"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("sa.key", b"rubbish", "no unencrypted PEM private key"),
        ("sa.key", certificates.to_pem(ec.generate_private_key(ec.SECP384R1())), "use P-256"),
        (
            "sa.key",
            certificates.to_pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)),
            "too short",
        ),
        ("sa.pub", b"rubbish", "no PEM public key"),
        ("sa.pub", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "only PEM public keys"),
        ("sa.pub", public_pem(ed25519.Ed25519PrivateKey.generate().public_key()), "ECDSA or RSA"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(KeyFileError, match=message):
        SigningKeys.open(tmp_path)


def forgeries(keys: SigningKeys) -> dict[str, str]:
    good = keys.sign(PAYLOAD)
    head, body, signature = good.split(".")
    kid = jwt.get_unverified_header(good)["kid"]
    mine = certificates.new_key()
    evil = encoded(b'{"sub":"eve"}')
    published = orjson.loads(keys.jwks())["keys"][0]
    shared_secret = base64.urlsafe_b64decode(published["x"] + "=")
    return {
        "empty": "",
        "words": "not a token",
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.{signature}",
        "truncated": good[:-1],
        "cut in half": good[: len(good) // 2],
        "no signature": f"{head}.{body}.",
        "another body": f"{head}.{evil}.{signature}",
        "another signature": f"{head}.{body}.{encoded(b'0' * 64)}",
        "alg none": f"{encoded(orjson.dumps({'alg': 'none', 'kid': kid}))}.{evil}.",
        "alg none in capitals": f"{encoded(orjson.dumps({'alg': 'NONE', 'kid': kid}))}.{evil}.{signature}",
        "public key as a shared secret": jwt.encode(
            {"sub": "eve"}, shared_secret, algorithm="HS256", headers={"kid": kid}
        ),
        "own key under our name": jwt.encode({"sub": "eve"}, mine, algorithm="ES256", headers={"kid": kid}),
        "own key under its own name": jwt.encode(
            {"sub": "eve"}, mine, algorithm="ES256", headers={"kid": key_id(mine.public_key())}
        ),
        "own key in the header": jwt.encode(
            {"sub": "eve"}, mine, algorithm="ES256", headers={"jwk": published, "kid": kid}
        ),
        "no key named": jwt.encode({"sub": "eve"}, mine, algorithm="ES256"),
        "key name of another type": f"{encoded(orjson.dumps({'alg': 'ES256', 'kid': ['x']}))}.{body}.{signature}",
        "header is no object": f"{encoded(b'[]')}.{body}.{signature}",
        "header is no JSON": f"{encoded(b'{')}.{body}.{signature}",
        "unencoded payload": jwt.encode(
            {"sub": "eve"}, mine, algorithm="ES256", headers={"kid": kid, "b64": False, "crit": ["b64"]}
        ),
        "zero signature": f"{head}.{body}.{encoded(bytes(64))}",
        "huge": f"{head}.{'A' * 20_000}.{signature}",
        "not ASCII": f"{head}.{body}.\u00e9",
        "a lone surrogate": f"{head}.{body}.\udcff",
    }


@pytest.mark.parametrize("forgery", list(forgeries(SigningKeys(certificates.new_key()))))
def test_refused(tmp_path: Path, forgery: str) -> None:
    keys = SigningKeys.open(tmp_path)
    with pytest.raises(BadSignature):
        keys.verify(forgeries(keys)[forgery])
