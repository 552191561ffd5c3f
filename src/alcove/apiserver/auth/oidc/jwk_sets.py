"""The keys that an issuer publishes: a JSON Web Key Set, of which only what can verify a signature is read.

Keys of other types, for encryption, too weak or too large are left out: an issuer may publish more than is used here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jwt
import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from msgspec import Struct

ALGORITHMS = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
    "EdDSA",
)
KEYS_MAX = 64
"""Keys of a set that are read; the others are ignored."""
RSA_BITS_MIN = 2_048
RSA_BITS_MAX = 8_192
RSA_EXPONENT_MAX = 1 << 32
"""Larger RSA keys and exponents take long to verify with; such keys are ignored."""
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA = tuple(each for each in ALGORITHMS if each[1] == "S" and each[0] in "RP")

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class VerificationKey(Struct, frozen=True):
    id: str
    key: PublicKey
    algorithms: tuple[str, ...]
    """The algorithms that it may be used with."""


class JwkSet(Struct, frozen=True):
    keys: tuple[VerificationKey, ...]

    def find(self, key_id: str, algorithm: str) -> VerificationKey | None:
        """The key of a token. A token that names none is verified if there is only one key for its algorithm."""
        fitting = [key for key in self.keys if algorithm in key.algorithms and key_id in ("", key.id)]
        return fitting[0] if len(fitting) == 1 or (fitting and key_id) else None


def parse(data: bytes) -> JwkSet:
    """Raises ValueError."""
    document = orjson.loads(data)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError("it has no list of keys")
    return JwkSet(tuple(_usable(keys[:KEYS_MAX])))


def _usable(keys: Sequence[Any]) -> Iterator[VerificationKey]:
    for given in keys:
        if not isinstance(given, dict) or given.get("use", "sig") != "sig" or "d" in given:
            continue
        key_id, algorithm = given.get("kid", ""), given.get("alg")
        key = _load(given)
        if key is None or not isinstance(key_id, str):
            continue
        algorithms = tuple(each for each in _algorithms(key) if algorithm in (None, each))
        if algorithms:
            yield VerificationKey(key_id, key, algorithms)


def _load(given: dict[str, Any]) -> PublicKey | None:
    """None if it is no key that is used here."""
    loaders = {"RSA": RSAAlgorithm.from_jwk, "EC": ECAlgorithm.from_jwk, "OKP": OKPAlgorithm.from_jwk}
    load = loaders.get(str(given.get("kty")))
    if (
        load is None
        or len(str(given.get("n", ""))) > RSA_BITS_MAX // 6 + 4
        or len(str(given.get("e", ""))) > 8
    ):
        return None
    try:
        key = load(given)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey) else None


def _algorithms(key: PublicKey) -> tuple[str, ...]:
    match key:
        case RSAPublicKey():
            is_bounded = RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX
            return _RSA if is_bounded and key.public_numbers().e <= RSA_EXPONENT_MAX else ()
        case EllipticCurvePublicKey():
            algorithm = _CURVES.get(key.curve.name)
            return (algorithm,) if algorithm else ()
    return ("EdDSA",)
