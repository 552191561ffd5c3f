"""From claims to an identity: claims by name, CEL, and what no claim can make."""

from typing import Any

import msgspec
import pytest

from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import JwtAuthenticator
from alcove.apiserver.auth.oidc import claim_rules
from alcove.apiserver.auth.oidc.claim_rules import compile_rules, identity_of
from alcove.apiserver.auth.oidc.signatures import TokenRefused
from alcove.apiserver.identity import Identity

ACME = TenantId("acme")
ISSUER = {"url": "https://e.example", "audiences": ["a"]}
BY_SUB = {"username": {"claim": "sub", "prefix": ""}}


def made(claims: dict[str, Any], mappings: dict[str, Any] | None = None, **rules: Any) -> Identity:
    given = {"issuer": ISSUER, "claimMappings": mappings or BY_SUB, **rules}
    compiled, errors = compile_rules(msgspec.convert(given, JwtAuthenticator), "jwt[0]")
    assert not errors, errors
    return identity_of(compiled, ACME, claims)


def compile_errors(mappings: dict[str, Any] | None = None, **rules: Any) -> str:
    given = {"issuer": ISSUER, "claimMappings": mappings or BY_SUB, **rules}
    return "; ".join(map(str, compile_rules(msgspec.convert(given, JwtAuthenticator), "jwt[0]")[1]))


def test_claims_by_name_with_prefixes() -> None:
    mappings = {
        "username": {"claim": "sub", "prefix": "sso:"},
        "groups": {"claim": "roles", "prefix": "r:"},
        "uid": {"claim": "oid"},
    }
    found = made({"sub": "ann", "roles": ["dev", "ops"], "oid": "17", "jti": "j"}, mappings)
    assert (found.tenant, found.user, found.uid) == (ACME, "sso:ann", "17")
    assert found.groups == ("r:dev", "r:ops", "system:authenticated")
    assert found.extra["authentication.kubernetes.io/credential-id"] == ("JTI=j",)
    assert made({"sub": "ann", "roles": "dev"}, mappings).groups == ("r:dev", "system:authenticated")
    assert made({"sub": "ann"}, mappings).groups == ("system:authenticated",)


def test_expressions_make_names_groups_and_extra() -> None:
    mappings = {
        "username": {"expression": "claims.sub + '@' + claims.org"},
        "groups": {"expression": "claims.roles.filter(r, r != 'x')"},
        "uid": {"expression": "claims.sub"},
        "extra": [
            {"key": "example.com/org", "valueExpression": "claims.org"},
            {"key": "example.com/none", "valueExpression": "claims.?none.orValue('')"},
        ],
    }
    found = made({"sub": "ann", "org": "acme", "roles": ["dev", "x"]}, mappings)
    assert (found.user, found.uid, found.groups[0]) == ("ann@acme", "ann", "dev")
    assert dict(found.extra) == {"example.com/org": ("acme",)}


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({}, 'no claim "sub"'),
        ({"sub": ""}, 'no claim "sub"'),
        ({"sub": 7}, 'no claim "sub"'),
        ({"sub": "system:admin"}, "cannot be named"),
        ({"sub": "a\nb"}, "printable"),
        ({"sub": "a", "roles": ["system:masters"]}, "cannot be named"),
        ({"sub": "a", "roles": "system:nodes"}, "cannot be named"),
        ({"sub": "a", "roles": [1]}, "list of texts"),
        ({"sub": "a", "roles": {"a": "b"}}, "list of texts"),
        ({"sub": "a", "roles": ["g\x00"]}, "printable"),
        ({"sub": "a", "roles": ["g"] * 2_000}, "too many"),
        ({"sub": "a" * 20_000}, "too long"),
    ],
)
def test_claims_that_make_no_user_are_refused(claims: dict[str, Any], message: str) -> None:
    mappings = {**BY_SUB, "groups": {"claim": "roles", "prefix": ""}}
    with pytest.raises(TokenRefused, match=message):
        made(claims, mappings)


@pytest.mark.parametrize(
    "expression", ["'system:' + claims.sub", "claims.sub == 'a' ? 'system:masters' : 'x'", "'system:admin'"]
)
def test_expressions_make_no_reserved_names(expression: str) -> None:
    with pytest.raises(TokenRefused, match="cannot be named"):
        made({"sub": "a"}, {"username": {"expression": expression}})
    with pytest.raises(TokenRefused, match="cannot be named"):
        made({"sub": "a"}, {**BY_SUB, "groups": {"expression": f"[{expression}]"}})


def test_an_unverified_email_address_is_no_name() -> None:
    mappings = {"username": {"claim": "email", "prefix": ""}}
    assert made({"email": "a@e.example"}, mappings).user == "a@e.example"
    assert made({"email": "a@e.example", "email_verified": True}, mappings).user == "a@e.example"
    for unverified in (False, "true", None):
        with pytest.raises(TokenRefused, match="not verified"):
            made({"email": "a@e.example", "email_verified": unverified}, mappings)


def test_validation_rules_refuse_with_their_message() -> None:
    by_claim = [{"claim": "hd", "requiredValue": "acme.example"}]
    assert made({"sub": "a", "hd": "acme.example"}, claimValidationRules=by_claim)
    for claims in ({}, {"hd": "evil.example"}, {"hd": ["acme.example"]}):
        with pytest.raises(TokenRefused, match="required value"):
            made({"sub": "a", **claims}, claimValidationRules=by_claim)
    by_rule = [{"expression": "claims.level >= 2", "message": "level too low"}]
    assert made({"sub": "a", "level": 2}, claimValidationRules=by_rule)
    with pytest.raises(TokenRefused, match="level too low"):
        made({"sub": "a", "level": 1}, claimValidationRules=by_rule)
    with pytest.raises(TokenRefused, match="failed"):
        made({"sub": "a"}, claimValidationRules=by_rule)
    user = [{"expression": "user.groups.exists(g, g == 'dev')", "message": "not a developer"}]
    mappings = {**BY_SUB, "groups": {"claim": "roles", "prefix": ""}}
    assert made({"sub": "a", "roles": ["dev"]}, mappings, userValidationRules=user)
    with pytest.raises(TokenRefused, match="not a developer"):
        made({"sub": "a"}, mappings, userValidationRules=user)


def test_expressions_are_type_checked_and_the_message_names_the_field() -> None:
    assert "jwt[0].claimMappings.username.expression" in compile_errors({"username": {"expression": "1 + 1"}})
    assert "compilation failed" in compile_errors({"username": {"expression": "claims.sub +"}})
    assert "undeclared" in compile_errors({"username": {"expression": "user.name"}})
    assert "jwt[0].claimMappings.groups.expression" in compile_errors(
        {**BY_SUB, "groups": {"expression": "true"}}
    )
    assert "claimValidationRules[0].expression" in compile_errors(
        claimValidationRules=[{"expression": "'a'"}]
    )
    assert "userValidationRules[0].expression" in compile_errors(
        userValidationRules=[{"expression": "user.nothing == 'a'"}]
    )


def test_an_expression_cannot_use_more_than_a_tokens_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_rules, "TOKEN_COST_MAX", 2_000)
    many = "claims.l.all(a, claims.l.all(b, claims.l.all(c, a + b + c != 'x')))"
    with pytest.raises(TokenRefused, match="costs too much"):
        made({"sub": "a", "l": ["y"] * 50}, claimValidationRules=[{"expression": many}])
