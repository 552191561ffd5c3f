"""OpenID discovery: a relying party that knows only an issuer's URL can verify the issuer's tokens."""

import jwt
import orjson

from alcove.api.ids import TenantId
from alcove.apiserver.auth import certificates, openid
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.auth.tokens import BoundObject, TokenObjectRef, Tokens
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")


def test_a_relying_party_verifies_a_token_by_discovery_alone() -> None:
    keys = SigningKeys(certificates.new_key())
    tokens = Tokens(keys, MemoryReader(), lambda: 1_000_000_000.0, base_url="https://api.example.com:6443/")
    issuer = "https://api.example.com:6443/tenants/acme"
    found = orjson.loads(openid.configuration(tokens.issuer(ACME), keys))
    assert found["issuer"] == issuer
    assert found["jwks_uri"] == f"{issuer}/openid/v1/jwks"
    assert found["id_token_signing_alg_values_supported"] == ["ES256"]
    published = jwt.PyJWKSet.from_json(openid.key_set(keys).decode())
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
