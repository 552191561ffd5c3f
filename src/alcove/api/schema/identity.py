"""The schemas of authentication.alcove.io: the OIDC issuers of a tenant's users."""

from typing import Any

PACKAGE = "io.alcove.authentication.v1alpha1"

_META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1"


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _part(name: str, description: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{PACKAGE}.{name}", "description": description}


def _list(of: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "items": of, "description": description, "x-kubernetes-list-type": "atomic"}


def _struct(description: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        **({"required": list(required)} if required else {}),
    }


_EXPRESSION = _text("CEL on `claims`, the token's claims.")

DEFINITIONS: dict[str, dict[str, Any]] = {
    f"{PACKAGE}.JWTIssuer": _struct(
        "The issuer of tokens, and whom they must be for.",
        {
            "url": _text("The issuer's URL, exactly as in the tokens' claim `iss`; https."),
            "discoveryURL": _text(
                "Where its discovery document is, if not at URL/.well-known/openid-configuration."
            ),
            "certificateAuthority": _text(
                "PEM certificates that its own is verified with; by default those that the API server's machine trusts."
            ),
            "audiences": _list(_text("An audience."), "Audiences of which a token must have one."),
            "audienceMatchPolicy": _text("MatchAny; required with several audiences."),
        },
        "url",
        "audiences",
    ),
    f"{PACKAGE}.ClaimValidationRule": _struct(
        "What a token's claims must satisfy: a claim's value, or an expression.",
        {
            "claim": _text("Name of a claim."),
            "requiredValue": _text("The claim's value."),
            "expression": _text("CEL on `claims` that must be true."),
            "message": _text("Told if the expression is not true."),
        },
    ),
    f"{PACKAGE}.PrefixedClaim": _struct(
        "A name, or names, from a claim or an expression.",
        {
            "claim": _text("Name of a claim."),
            "prefix": _text("Put before the claim's value; required with a claim, may be empty."),
            "expression": _EXPRESSION,
        },
    ),
    f"{PACKAGE}.ClaimOrExpression": _struct(
        "A value from a claim or an expression.",
        {"claim": _text("Name of a claim."), "expression": _EXPRESSION},
    ),
    f"{PACKAGE}.ExtraMapping": _struct(
        "An extra value of the user.",
        {"key": _text("Key: a domain and a path, in lower case."), "valueExpression": _EXPRESSION},
        "key",
        "valueExpression",
    ),
    f"{PACKAGE}.ClaimMappings": _struct(
        "How claims make a user.",
        {
            "username": _part("PrefixedClaim", "The user's name."),
            "groups": _part("PrefixedClaim", "The user's groups."),
            "uid": _part("ClaimOrExpression", "The user's uid."),
            "extra": _list(_part("ExtraMapping", "One of them."), "Extra values of the user."),
        },
        "username",
    ),
    f"{PACKAGE}.UserValidationRule": _struct(
        "What the user that the claims make must satisfy.",
        {
            "expression": _text("CEL on `user` (username, uid, groups, extra) that must be true."),
            "message": _text("Told if the expression is not true."),
        },
        "expression",
    ),
    f"{PACKAGE}.ConsoleClient": _struct(
        "How the console signs users in at the issuer: the authorization code flow with PKCE, as a public client.",
        {
            "clientID": _text("Id of the console at the issuer, and one of the audiences."),
            "displayName": _text("Name on the sign-in page; by default the object's name."),
            "scopes": _list(_text("A scope."), "Scopes beside openid; by default profile and email."),
        },
        "clientID",
    ),
    f"{PACKAGE}.IdentityProviderSpec": _struct(
        "An issuer and the users that its tokens make, as in Kubernetes' AuthenticationConfiguration.",
        {
            "issuer": _part("JWTIssuer", "The issuer."),
            "claimValidationRules": _list(
                _part("ClaimValidationRule", "One of them."), "What all tokens must satisfy."
            ),
            "claimMappings": _part("ClaimMappings", "How claims make a user."),
            "userValidationRules": _list(
                _part("UserValidationRule", "One of them."), "What all users must satisfy."
            ),
            "console": _part("ConsoleClient", "Lets users sign in to the console at this issuer."),
        },
        "issuer",
        "claimMappings",
    ),
    f"{PACKAGE}.IdentityProvider": {
        **_struct(
            "An OIDC issuer whose tokens make users of this tenant.",
            {
                "apiVersion": _text("Version of the schema this object is written in."),
                "kind": _text("Kind of this object."),
                "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Name of the object."},
                "spec": _part("IdentityProviderSpec", "The issuer and its users."),
            },
            "spec",
        ),
        "x-kubernetes-group-version-kind": [
            {"group": "authentication.alcove.io", "kind": "IdentityProvider", "version": "v1alpha1"}
        ],
    },
}
