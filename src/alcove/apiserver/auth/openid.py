"""OpenID discovery: publishes the keys that verify a tenant's service account tokens.

Each tenant is an issuer, so each has its own document at `{issuer}/.well-known/openid-configuration`,
which is the tenant's path form of `/.well-known/openid-configuration`.
"""

import orjson

from alcove.apiserver.auth.signingkeys import SigningKeys

CONFIGURATION_PATH = "/.well-known/openid-configuration"
KEYS_PATH = "/openid/v1/jwks"
KEYS_CONTENT_TYPE = "application/jwk-set+json"
CACHE_CONTROL = "public, max-age=3600"


def configuration(issuer: str, keys: SigningKeys) -> bytes:
    """The issuer's metadata, limited to what is needed to verify tokens."""
    return orjson.dumps(
        {
            "issuer": issuer,
            "jwks_uri": f"{issuer}{KEYS_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": keys.algorithms(),
        }
    )


def key_set(keys: SigningKeys) -> bytes:
    return keys.jwks()
