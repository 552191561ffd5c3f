"""Tokens of OIDC issuers: JWTs that somebody else signs, for users that somebody else knows.

    config_file     ring0's AuthenticationConfiguration, read again when it changes
    tenant_providers  the IdentityProviders of tenants
    providers       a compiled JWT authenticator, with the tokens that it has verified
    oidc_tokens     finds the providers of a token: ring0's, and those of the tenant that a request names
    claim_rules     from claims to an identity, by claims' names or CEL
    signatures      a token's form and signature
    jwk_sets        the keys that an issuer publishes
    issuer_keys     keeps an issuer's keys current, with back-off
    issuer_client   the requests to issuers, by the rules of `outbound/`

The one who configures an issuer chooses what users it makes, of the configuring tenant and of no other. An issuer may be
hostile, as may be whoever sends a token. So all that comes from either is bounded in bytes and time; keys are fetched once
for all that wait for them; signatures and expressions are computed beside the event loop, on the tenant's account; and
names that begin with `system:` are refused.
"""
