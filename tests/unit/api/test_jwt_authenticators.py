"""The fields of JWT authenticators: each mistake is an error that names the field."""

from typing import Any

import msgspec
import pytest

from alcove.api.jwt_authenticators import RULES_MAX, JwtAuthenticator, check_authenticator

GOOD: dict[str, Any] = {
    "issuer": {"url": "https://login.example.com/realm", "audiences": ["cluster"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


def errors_of(given: dict[str, Any]) -> str:
    return "; ".join(map(str, check_authenticator(msgspec.convert(given, JwtAuthenticator), "jwt[0]")))


def changed(part: str, **fields: Any) -> dict[str, Any]:
    return {**GOOD, part: {**GOOD[part], **fields}}


def test_a_minimal_and_a_full_authenticator_are_valid() -> None:
    assert not errors_of(GOOD)
    full = {
        "issuer": {
            "url": "https://login.example.com",
            "discoveryURL": "https://inside.example.com/discovery",
            "audiences": ["a", "b"],
            "audienceMatchPolicy": "MatchAny",
        },
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "example.com"},
            {"expression": "claims.level > 1", "message": "low level"},
        ],
        "claimMappings": {
            "username": {"expression": "claims.sub"},
            "groups": {"claim": "groups", "prefix": "sso:"},
            "uid": {"claim": "sub"},
            "extra": [{"key": "example.com/team", "valueExpression": "claims.team"}],
        },
        "userValidationRules": [{"expression": "user.username != 'root'", "message": "no root"}],
    }
    assert not errors_of(full)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"url": ""}, "issuer.url: Required value"),
        ({"url": "http://login.example.com"}, "issuer.url: Invalid value"),
        ({"url": "https://user:pass@login.example.com"}, "must not contain a username"),
        ({"url": "https://login.example.com?x=1"}, "must not contain a query"),
        ({"url": "https://login.example.com#x"}, "must not contain a fragment"),
        ({"url": "https://"}, "must have a host"),
        ({"url": "https://[::1"}, "issuer.url: Invalid value"),
        ({"url": "https://login.example.com/\r\nHost: x"}, "printable ASCII"),
        ({"url": "https://login.example.com:99999"}, "issuer.url: Invalid value"),
        ({"url": "https://e.example/" + "x" * 5000}, "issuer.url: Invalid value"),
        ({"discoveryURL": "https://login.example.com/realm/"}, "discoveryURL must be different"),
        ({"discoveryURL": "ftp://x"}, "issuer.discoveryURL: Invalid value"),
        ({"certificateAuthority": "no PEM"}, "issuer.certificateAuthority: Invalid value"),
        ({"audiences": []}, "issuer.audiences: Required value"),
        ({"audiences": ["a", "b"]}, "issuer.audienceMatchPolicy: Invalid value"),
        (
            {"audiences": ["a", "a"], "audienceMatchPolicy": "MatchAny"},
            "issuer.audiences[1]: Duplicate value",
        ),
        ({"audiences": [""]}, "issuer.audiences[0]: Required value"),
        ({"audienceMatchPolicy": "MatchAll"}, "issuer.audienceMatchPolicy: Unsupported value"),
    ],
)
def test_a_bad_issuer_is_refused_by_its_field(fields: dict[str, Any], named: str) -> None:
    assert f"jwt[0].{named}" in errors_of(changed("issuer", **fields)) or named in errors_of(
        changed("issuer", **fields)
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"username": {}}, "claimMappings.username: Required value"),
        ({"username": {"claim": "sub"}}, "claimMappings.username.prefix: Required value"),
        ({"username": {"claim": "sub", "prefix": "", "expression": "claims.sub"}}, "claimMappings.username"),
        ({"username": {"claim": "sub", "prefix": "system:"}}, "claimMappings.username.prefix: Invalid value"),
        ({"username": {"expression": "claims.email"}}, "claims.email_verified must be used"),
        ({"groups": {"claim": "groups"}}, "claimMappings.groups.prefix: Required value"),
        ({"groups": {"claim": "groups", "prefix": "system:"}}, "claimMappings.groups.prefix: Invalid value"),
        ({"groups": {"prefix": "x"}}, "claimMappings.groups.prefix: Forbidden"),
        ({"uid": {"claim": "sub", "expression": "claims.sub"}}, "claimMappings.uid"),
        ({"extra": [{"key": "nodomain", "valueExpression": "'x'"}]}, "claimMappings.extra[0].key"),
        ({"extra": [{"key": "a.kubernetes.io/x", "valueExpression": "'x'"}]}, "is reserved"),
        ({"extra": [{"key": "alcove/tenant", "valueExpression": "'system'"}]}, "is reserved"),
        ({"extra": [{"key": "example.com/A", "valueExpression": "'x'"}]}, "lower case"),
        ({"extra": [{"key": "example.com/a"}]}, "claimMappings.extra[0].valueExpression: Required value"),
        (
            {"extra": [{"key": "e.x/a", "valueExpression": "'x'"}] * 2},
            "claimMappings.extra[1].key: Duplicate",
        ),
        ({"extra": [{"key": "e.x/a", "valueExpression": "'x'"}] * (RULES_MAX + 1)}, "extra: Too many"),
    ],
)
def test_bad_mappings_are_refused_by_their_field(fields: dict[str, Any], named: str) -> None:
    assert named in errors_of(changed("claimMappings", **fields))


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({}, "claimValidationRules[0]: Required value"),
        ({"claim": "a", "expression": "true"}, "claimValidationRules[0]: Required value"),
        ({"claim": "a", "message": "x"}, "claimValidationRules[0].message: Forbidden"),
        ({"expression": "true", "requiredValue": "x"}, "claimValidationRules[0].requiredValue: Forbidden"),
    ],
)
def test_bad_claim_rules_are_refused(rule: dict[str, Any], named: str) -> None:
    assert named in errors_of({**GOOD, "claimValidationRules": [rule]})
    assert "claimValidationRules[1].claim: Duplicate" in errors_of(
        {**GOOD, "claimValidationRules": [{"claim": "a", "requiredValue": "b"}] * 2}
    )


def test_bad_user_rules_are_refused() -> None:
    assert "userValidationRules[0].expression: Required" in errors_of({**GOOD, "userValidationRules": [{}]})
