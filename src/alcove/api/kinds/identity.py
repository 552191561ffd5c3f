"""authentication.alcove.io: identity providers, the OIDC issuers of a tenant's users."""

import msgspec
from msgspec import Struct, field

from alcove.api import names
from alcove.api.fields import FieldError, invalid, required, too_many
from alcove.api.jwt_authenticators import JwtAuthenticator, check_authenticator
from alcove.api.kind import Strategy
from alcove.api.objects import Object

DISPLAY_NAME_LENGTH_MAX = 64
SCOPES_MAX = 16
"""Scopes that the console asks a provider for."""
_SCOPE_LENGTH_MAX = 128


class ConsoleClient(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the console signs users in at a provider."""

    client_id: str = field(name="clientID", default="")
    display_name: str = ""
    scopes: tuple[str, ...] = ()


class IdentityProviderSpec(JwtAuthenticator, frozen=True, forbid_unknown_fields=True, rename="camel"):
    console: ConsoleClient | None = None


def authenticator_of(provider: Object) -> IdentityProviderSpec:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(provider.get("spec") or {}, IdentityProviderSpec)


def _console_errors(spec: IdentityProviderSpec) -> list[FieldError]:
    client = spec.console
    if client is None:
        return []
    errors: list[FieldError] = []
    if not client.client_id:
        errors.append(required("spec.console.clientID"))
    elif client.client_id not in spec.issuer.audiences:
        message = (
            "must be one of spec.issuer.audiences: it is the audience of the tokens that the console gets"
        )
        errors.append(invalid("spec.console.clientID", client.client_id, message))
    name = client.display_name
    if len(name) > DISPLAY_NAME_LENGTH_MAX or not name.isprintable():
        message = f"must be at most {DISPLAY_NAME_LENGTH_MAX} printable characters"
        errors.append(invalid("spec.console.displayName", name[:256], message))
    if len(client.scopes) > SCOPES_MAX:
        errors.append(too_many("spec.console.scopes", len(client.scopes), SCOPES_MAX))
    for index, scope in enumerate(client.scopes[:SCOPES_MAX]):
        if (
            not 0 < len(scope) <= _SCOPE_LENGTH_MAX
            or not scope.isascii()
            or not scope.isprintable()
            or " " in scope
        ):
            message = "must be an OAuth scope: printable ASCII characters without spaces"
            errors.append(invalid(f"spec.console.scopes[{index}]", scope[:256], message))
    return errors


def _validate(provider: Object) -> list[FieldError]:
    try:
        authenticator = authenticator_of(provider)
    except msgspec.ValidationError as error:
        return [invalid("spec", "", str(error))]
    return check_authenticator(authenticator, "spec") + _console_errors(authenticator)


STRATEGIES: dict[str, Strategy] = {
    "identityproviders": Strategy(validate=_validate, validate_name=names.name_is_dns_label),
}
