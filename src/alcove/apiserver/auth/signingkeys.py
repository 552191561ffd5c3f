"""The keys of service account tokens: one signs, all verify, and the public keys are published.

Files of the key directory: `sa.key` (created at the first start) signs; `sa.pub`, if it exists, contains
further public keys in PEM, one after the other, whose tokens are still valid: to rotate the key, add the old
public key there. Only signatures are verified here, not claims.

The public keys are published by OpenID discovery: each tenant is an issuer, so each has its own document at
`{issuer}/.well-known/openid-configuration`, which is the tenant's path form of
`/.well-known/openid-configuration`.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import jwt
import orjson
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.auth import certificates, keyfiles
from alcove.apiserver.auth.certificates import PrivateKey, PublicKey
from alcove.apiserver.auth.keyfiles import KeyFileError

SIGNING_KEY = "sa.key"
MORE_KEYS = "sa.pub"
TOKEN_LENGTH_MAX = 16_384
OPENID_CONFIGURATION_PATH = "/.well-known/openid-configuration"
OPENID_KEYS_PATH = "/openid/v1/jwks"

_PUBLIC_PARTS = frozenset(("kty", "crv", "x", "y", "n", "e"))
_jws = jwt.PyJWS(algorithms=["ES256", "RS256"])


class BadSignature(Exception):
    """The token is not signed by one of the keys; the message does not reveal which keys there are."""


class VerifiedPayload(Struct, frozen=True):
    payload: bytes
    tenant: TenantId | None = None
    """The only tenant that the key may vouch for; None for this server's own keys."""


ForeignKeys = Callable[[str], tuple[TenantId, PublicKey] | None]
"""By the key's id: a key of another API server, whose tokens are valid for one tenant, which has been served there."""


class SigningKeys:
    def __init__(self, signing: PrivateKey, more: Sequence[PublicKey] = ()) -> None:
        self._signing = signing
        self._signing_id = key_id(signing.public_key())
        self._keys: Mapping[str, PublicKey] = {key_id(key): key for key in (signing.public_key(), *more)}

    @classmethod
    def open(cls, directory: Path) -> "SigningKeys":
        """The directory's keys; the signing key is created if it does not exist. Raises KeyFileError."""
        path = directory / SIGNING_KEY
        data = keyfiles.read_or_create(path, lambda: certificates.to_pem(certificates.new_key()))
        signing = certificates.load_private_key(path, data)
        more = keyfiles.read(directory / MORE_KEYS) or b""
        for key in (
            signing.public_key(),
            *(public_keys := list(read_public_keys(str(directory / MORE_KEYS), more))),
        ):
            _check_supported(path, key)
        return cls(signing, public_keys)

    def sign(self, payload: bytes) -> str:
        """The payload as a compact JWS."""
        algorithm = _algorithm(self._signing.public_key())
        return _jws.encode(payload, self._signing, algorithm, headers={"kid": self._signing_id})

    def verify(self, token: str, foreign: ForeignKeys = lambda _id: None) -> VerifiedPayload:
        """The payload of a token that one of the keys signed. Raises BadSignature."""
        if len(token) > TOKEN_LENGTH_MAX or token.count(".") != 2:
            raise BadSignature("it is not a signed token")
        try:
            kid, tenant = jwt.get_unverified_header(token).get("kid", ""), None
            key = self._keys.get(kid)
            if key is None and (other := foreign(kid)) is not None:
                tenant, key = other
            if key is None:
                raise BadSignature("it was signed with a key that is not this server's")
            # The algorithm is the key's, never the token's: this rules out `none` and algorithm confusion.
            payload: bytes = _jws.decode(token, key, algorithms=[_algorithm(key)])
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadSignature("its signature is not valid") from error
        return VerifiedPayload(payload, tenant)

    def public_keys(self) -> str:
        """The keys whose tokens are valid, in PEM, for another server's `sa.pub`."""
        return "".join(public_pem(key) for key in self._keys.values())

    def derive(self, purpose: str, length_bytes: int) -> bytes:
        """A secret key for another purpose, the same at every server that signs with this key."""
        secret = self._signing.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return HKDF(hashes.SHA256(), length_bytes, None, purpose.encode()).derive(secret)

    def jwks(self) -> bytes:
        """The public keys as a JSON Web Key Set."""
        return orjson.dumps({"keys": [_jwk(kid, key) for kid, key in self._keys.items()]})

    def openid_configuration(self, issuer: str) -> bytes:
        """The issuer's metadata, limited to what is needed to verify tokens."""
        return orjson.dumps(
            {
                "issuer": issuer,
                "jwks_uri": f"{issuer}{OPENID_KEYS_PATH}",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": self.algorithms(),
            }
        )

    def algorithms(self) -> list[str]:
        return sorted({_algorithm(key) for key in self._keys.values()})


def public_pem(key: PublicKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(encoding, form).decode()


def key_id(key: PublicKey) -> str:
    """The key's id: the digest of the public key, so that it is the same on every server."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode("ascii").rstrip("=")


def _algorithm(key: PublicKey) -> str:
    return "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"


def _jwk(kid: str, key: PublicKey) -> Object:
    described: Object
    if isinstance(key, rsa.RSAPublicKey):
        described = RSAAlgorithm.to_jwk(key, as_dict=True)
    else:
        described = ECAlgorithm.to_jwk(key, as_dict=True)
    public = {part: value for part, value in described.items() if part in _PUBLIC_PARTS}
    return {"use": "sig", "kid": kid, "alg": _algorithm(key), **public}


def read_public_keys(source: str, data: bytes) -> Iterable[PublicKey]:
    """The keys of PEM blocks, one after the other. Raises KeyFileError, which names `source`."""
    end = b"-----END PUBLIC KEY-----"
    for block in data.split(end)[:-1]:
        try:
            key = serialization.load_pem_public_key(block + end)
        except ValueError as error:
            raise KeyFileError(f"{source} must contain only PEM public keys") from error
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise KeyFileError(f"{source} must hold ECDSA or RSA keys")
        yield key
    if data and end not in data:
        raise KeyFileError(f"{source} holds no PEM public key")


def _check_supported(path: Path, key: PublicKey) -> None:
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < 2048:
            raise KeyFileError(f"{path}: an RSA key of {key.key_size} bits is too short; use 2048 or more")
    elif not isinstance(key.curve, ec.SECP256R1):
        raise KeyFileError(f"{path}: unsupported elliptic curve; use P-256 (ES256)")
