"""A token's form and signature, and the claims about its time, issuer and audience.

Only asymmetric algorithms are known here, and a key is used with the algorithms of its own type only: `none`, HMAC with a
public key as its secret, and the like have no code to run.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import jwt
import orjson
from msgspec import Struct

from alcove.api import meta
from alcove.api.jwt_authenticators import JwtIssuer
from alcove.apiserver.auth.oidc.jwk_sets import ALGORITHMS, VerificationKey

TOKEN_LENGTH_MAX = 16_384
LEEWAY_SECONDS = 60
"""Tolerance for issuers whose clocks are ahead of this server's."""
_jws = jwt.PyJWS(algorithms=list(ALGORITHMS))


class TokenRefused(Exception):
    """The token is not valid; the message says why."""


class TokenHeader(Struct, frozen=True):
    algorithm: str
    key_id: str


def unverified_issuer(token: str) -> str | None:
    """The issuer that a token names, None if this is no JWT. Nothing is verified."""
    if len(token) > TOKEN_LENGTH_MAX or token.count(".") != 2:
        return None
    try:
        issuer = _json_part(token.split(".")[1]).get("iss")
    except TokenRefused:
        return None
    return issuer if isinstance(issuer, str) else None


def header(token: str) -> TokenHeader:
    """Raises TokenRefused."""
    fields = _json_part(token.partition(".")[0])
    algorithm, key_id = fields.get("alg"), fields.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused(f"its algorithm must be one of {', '.join(ALGORITHMS)}")
    if not isinstance(key_id, str):
        raise TokenRefused("its key id must be a string")
    if "crit" in fields:
        raise TokenRefused("it has critical header fields that are not supported")
    return TokenHeader(algorithm, key_id)


def verified_claims(token: str, algorithm: str, key: VerificationKey) -> dict[str, Any]:
    """The claims of a token that the key has signed. Raises TokenRefused."""
    try:
        payload: bytes = _jws.decode(token, key.key, algorithms=[algorithm])
        claims = orjson.loads(payload)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise TokenRefused("its signature is not valid") from error
    if not isinstance(claims, dict):
        raise TokenRefused("its claims are not an object")
    return claims


def check_claims(claims: dict[str, Any], issuer: JwtIssuer, now: float) -> float:
    """When the token expires. Raises TokenRefused."""
    if claims.get("iss") != issuer.url:
        raise TokenRefused("it is from another issuer")
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not any(each in audiences for each in issuer.audiences):
        raise TokenRefused("it is for another audience")
    expires = _time(claims, "exp")
    if expires is None:
        raise TokenRefused("it has no expiry (exp)")
    if now >= expires:
        raise TokenRefused(f"it expired at {meta.format_time(expires)}; get a new one")
    for name in ("nbf", "iat"):
        time = _time(claims, name)
        if time is not None and time > now + LEEWAY_SECONDS:
            raise TokenRefused(f"it is not valid yet ({name}); check the clocks")
    return expires


def _time(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # Times that cannot be formatted as a date are no times.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 37:
        raise TokenRefused(f"its claim {name} is not a time")
    return float(value)


def _json_part(part: str) -> dict[str, Any]:
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError) as error:
        raise TokenRefused("it is not a signed token") from error
    if not isinstance(fields, dict):
        raise TokenRefused("it is not a signed token")
    return fields
