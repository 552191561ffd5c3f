"""From a token's claims to an identity: the rules of a JWT authenticator, compiled.

Compiling and evaluating may take long: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from alcove.api.cel.budget import CostBudget
from alcove.api.cel.environment import CelEnvironment, Program
from alcove.api.cel.errors import CelError, CompileError, OutOfBudget
from alcove.api.cel.schema_types import schema_type
from alcove.api.cel.types import BOOL, DYN, STRING, CelType, list_of, map_of
from alcove.api.fields import FieldError, invalid
from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import RESERVED_PREFIX, JwtAuthenticator, PrefixedClaim
from alcove.apiserver.auth.clientcert import CREDENTIAL_ID
from alcove.apiserver.auth.oidc.signatures import TokenRefused
from alcove.apiserver.identity import ALL_AUTHENTICATED, Identity

TOKEN_COST_MAX = 200_000
"""Units of CEL that all expressions together may spend on one token."""
IDENTITY_LENGTH_MAX = 16_384
"""Characters of all names and values of one identity."""
GROUPS_MAX = 1_024

_CLAIMS = {"claims": map_of(STRING, DYN)}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_USER = {
    "type": "object",
    "properties": {
        "username": {"type": "string"},
        "uid": {"type": "string"},
        "groups": _TEXTS,
        "extra": {"type": "object", "additionalProperties": _TEXTS},
    },
}
_TEXT_RESULTS = (STRING, DYN)
_LIST_RESULTS = (STRING, list_of(STRING), list_of(DYN), DYN)


class CompiledRules(Struct, frozen=True):
    authenticator: JwtAuthenticator
    programs: Mapping[str, Program]
    """By the expression's path below the authenticator."""


def compile_rules(given: JwtAuthenticator, path: str) -> tuple[CompiledRules, list[FieldError]]:
    """The rules, and what is wrong with expressions below `path`; with errors the rules must not be used."""
    on_claims = CelEnvironment(_CLAIMS)
    user = schema_type(_USER)
    assert user is not None
    on_user = CelEnvironment({"user": user})
    programs: dict[str, Program] = {}
    errors: list[FieldError] = []
    for at, source, allowed in _expressions(given):
        environment = on_user if at.startswith("userValidationRules") else on_claims
        try:
            program = environment.compile(source)
        except CompileError as error:
            errors.append(invalid(f"{path}.{at}", source, f"compilation failed: {error}"))
            continue
        if program.result not in allowed:
            wanted = ", ".join(str(each) for each in allowed if each is not DYN)
            message = f"must evaluate to one of [{wanted}], not {program.result}"
            errors.append(invalid(f"{path}.{at}", source, message))
        programs[at] = program
    return CompiledRules(given, programs), errors


def identity_of(rules: CompiledRules, tenant: TenantId, claims: dict[str, Any]) -> Identity:
    """The identity that the claims make, always of `tenant`. Raises TokenRefused."""
    evaluation = _Evaluation(rules, claims)
    evaluation.check_claims()
    mappings = rules.authenticator.claim_mappings
    user = evaluation.username()
    groups = evaluation.names(mappings.groups, "claimMappings.groups")
    uid = evaluation.uid()
    extra = evaluation.extra()
    _check_names(user, groups, uid, extra)
    evaluation.check_user({"username": user, "uid": uid, "groups": list(groups), "extra": extra})
    if isinstance(jti := claims.get("jti"), str) and jti.isprintable():
        extra[CREDENTIAL_ID] = [f"JTI={jti}"]
    all_groups = tuple(dict.fromkeys((*groups, ALL_AUTHENTICATED)))
    return Identity(tenant, user, all_groups, uid, {key: tuple(values) for key, values in extra.items()})


def _expressions(given: JwtAuthenticator) -> Iterator[tuple[str, str, Sequence[CelType]]]:
    mappings = given.claim_mappings
    named = [
        *(
            (f"claimValidationRules[{index}].expression", rule.expression, (BOOL,))
            for index, rule in enumerate(given.claim_validation_rules)
        ),
        ("claimMappings.username.expression", mappings.username.expression, _TEXT_RESULTS),
        ("claimMappings.groups.expression", mappings.groups.expression, _LIST_RESULTS),
        ("claimMappings.uid.expression", mappings.uid.expression, _TEXT_RESULTS),
        *(
            (f"claimMappings.extra[{index}].valueExpression", extra.value_expression, _LIST_RESULTS)
            for index, extra in enumerate(mappings.extra)
        ),
        *(
            (f"userValidationRules[{index}].expression", rule.expression, (BOOL,))
            for index, rule in enumerate(given.user_validation_rules)
        ),
    ]
    return (each for each in named if each[1])


class _Evaluation:
    """The evaluation of one token's claims."""

    def __init__(self, rules: CompiledRules, claims: dict[str, Any]) -> None:
        self._rules = rules
        self._given = rules.authenticator
        self._claims = claims
        self._budget = TOKEN_COST_MAX

    def check_claims(self) -> None:
        for index, rule in enumerate(self._given.claim_validation_rules):
            if rule.claim:
                if self._claims.get(rule.claim) != rule.required_value:
                    raise TokenRefused(f'its claim "{rule.claim}" has not the required value')
            elif self._run(f"claimValidationRules[{index}].expression", self._claims) is not True:
                raise TokenRefused(rule.message or f"its claims do not satisfy {rule.expression}")

    def check_user(self, user: dict[str, Any]) -> None:
        for index, rule in enumerate(self._given.user_validation_rules):
            if self._run(f"userValidationRules[{index}].expression", user) is not True:
                raise TokenRefused(rule.message or f"its user does not satisfy {rule.expression}")

    def username(self) -> str:
        mapping = self._given.claim_mappings.username
        if mapping.expression:
            return self._text("claimMappings.username.expression")
        value = self._claims.get(mapping.claim)
        if not isinstance(value, str) or not value:
            raise TokenRefused(f'it has no claim "{mapping.claim}", which is the user\'s name')
        if mapping.claim == "email" and self._claims.get("email_verified", True) is not True:
            raise TokenRefused("its email address is not verified")
        return f"{mapping.prefix or ''}{value}"

    def names(self, mapping: PrefixedClaim, path: str) -> list[str]:
        """The values of a claim that is a text or a list of them; none if the claim is missing."""
        if mapping.expression:
            return _texts(self._run(f"{path}.expression", self._claims), path)
        values = _texts(self._claims.get(mapping.claim), f'claim "{mapping.claim}"') if mapping.claim else []
        return [f"{mapping.prefix or ''}{value}" for value in values]

    def uid(self) -> str:
        mapping = self._given.claim_mappings.uid
        if mapping.expression:
            return self._text("claimMappings.uid.expression")
        value = self._claims.get(mapping.claim, "") if mapping.claim else ""
        if not isinstance(value, str):
            raise TokenRefused(f'its claim "{mapping.claim}" is not a text')
        return value

    def extra(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for index, extra in enumerate(self._given.claim_mappings.extra):
            path = f"claimMappings.extra[{index}].valueExpression"
            if values := _texts(self._run(path, self._claims), path):
                found[extra.key] = values
        return found

    def _text(self, path: str) -> str:
        value = self._run(path, self._claims)
        if not isinstance(value, str):
            raise TokenRefused(f"{path} gave no text")
        return value

    def _run(self, path: str, value: dict[str, Any]) -> Any:
        budget = CostBudget(self._budget)
        try:
            return self._rules.programs[path].evaluate((value,), budget)
        except OutOfBudget as error:
            raise TokenRefused(f"{path} costs too much to evaluate") from error
        except CelError as error:
            raise TokenRefused(f"{path} failed: {error}") from error
        finally:
            self._budget = budget.left


def _texts(value: Any, what: str) -> list[str]:
    """Raises TokenRefused for what is neither absent, a text nor a list of texts."""
    if value is None or value == "":
        return []
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TokenRefused(f"{what} is neither a text nor a list of texts")
    return [each for each in values if each]


def _check_names(user: str, groups: Sequence[str], uid: str, extra: Mapping[str, Sequence[str]]) -> None:
    if not user:
        raise TokenRefused("its user's name is empty")
    for name in (user, *groups):
        if name.startswith(RESERVED_PREFIX):
            raise TokenRefused(f'users and groups cannot be named "{RESERVED_PREFIX}…"')
    texts = [user, uid, *groups, *(value for values in extra.values() for value in values)]
    if not all(text.isprintable() for text in texts):
        raise TokenRefused("names and values of its user must be printable")
    if len(groups) > GROUPS_MAX or sum(map(len, texts)) > IDENTITY_LENGTH_MAX:
        raise TokenRefused("its user has too many or too long groups or other values")
