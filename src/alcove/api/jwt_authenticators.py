"""A JWT authenticator: an OIDC issuer whose tokens are accepted, and what user a token's claims make.

The fields, and what is checked of them, are those of `jwt[]` in Kubernetes' AuthenticationConfiguration. Expressions are
compiled elsewhere (`apiserver/auth/oidc/claim_rules.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct, field

from alcove.api import names
from alcove.api.fields import duplicate, forbidden, invalid, not_supported, required, too_many
from alcove.api.validation import FieldErrors

RESERVED_PREFIX = "system:"
"""Of names that no claim can give: Kubernetes' own users and groups."""
AUDIENCES_MAX = 64
RULES_MAX = 32
"""Entries of each of `claimValidationRules`, `userValidationRules` and `claimMappings.extra`."""
TEXT_LENGTH_MAX = 4_096
"""Characters of a URL, claim, value, message or expression."""
CERTIFICATE_AUTHORITY_LENGTH_MAX = 64 << 10
_MATCH_ANY = "MatchAny"
_EXTRA_PATH = re.compile(r"[a-z0-9/_.\-%~!$&'()*+,;=:@]+")
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io", "alcove", "alcove.io")
_EMAIL = re.compile(r"\bclaims\.email\b")
_EMAIL_VERIFIED = re.compile(r"\bclaims\.(\?)?email_verified\b")


class JwtIssuer(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    url: str = ""
    discovery_url: str = field(name="discoveryURL", default="")
    certificate_authority: str = ""
    audiences: tuple[str, ...] = ()
    audience_match_policy: str = ""


class ClaimRule(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class PrefixedClaim(Struct, frozen=True, forbid_unknown_fields=True):
    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class PlainClaim(Struct, frozen=True, forbid_unknown_fields=True):
    claim: str = ""
    expression: str = ""


class ExtraClaim(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    key: str = ""
    value_expression: str = ""


class ClaimMappings(Struct, frozen=True, forbid_unknown_fields=True):
    username: PrefixedClaim = PrefixedClaim()
    groups: PrefixedClaim = PrefixedClaim()
    uid: PlainClaim = PlainClaim()
    extra: tuple[ExtraClaim, ...] = ()


class UserRule(Struct, frozen=True, forbid_unknown_fields=True):
    expression: str = ""
    message: str = ""


class JwtAuthenticator(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    issuer: JwtIssuer = JwtIssuer()
    claim_validation_rules: tuple[ClaimRule, ...] = ()
    claim_mappings: ClaimMappings = ClaimMappings()
    user_validation_rules: tuple[UserRule, ...] = ()


def check_authenticator(given: JwtAuthenticator, path: str) -> FieldErrors:
    """What is wrong with the fields below `path`, except for expressions that do not compile."""
    errors: FieldErrors = []
    _check_issuer(given.issuer, f"{path}.issuer", errors)
    _check_claim_rules(given.claim_validation_rules, f"{path}.claimValidationRules", errors)
    _check_mappings(given, f"{path}.claimMappings", errors)
    rules_path = f"{path}.userValidationRules"
    _check_count(given.user_validation_rules, RULES_MAX, rules_path, errors)
    for index, rule in enumerate(given.user_validation_rules[:RULES_MAX]):
        _check_text(rule.expression, f"{rules_path}[{index}].expression", errors, is_required=True)
        _check_text(rule.message, f"{rules_path}[{index}].message", errors)
    expressions = [rule.expression for rule in given.user_validation_rules[:RULES_MAX]]
    _check_unique(expressions, rules_path, "expression", errors)
    return errors


def check_https_url(url: str, path: str, errors: FieldErrors) -> None:
    """A URL that the API server may connect to: https, with a host, and with nothing but a path beside it."""
    if not url:
        errors.append(required(path, "URL is required"))
        return
    if len(url) > TEXT_LENGTH_MAX:
        errors.append(invalid(path, url[:64], names.too_long(TEXT_LENGTH_MAX)))
        return
    if message := https_url_error(url):
        errors.append(invalid(path, url, message))


def https_url_error(url: str) -> str:
    """Why this is no such URL; empty if it is one."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return "URL must have only printable ASCII characters without spaces"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme != "https" or not url.startswith("https://"):
        return "URL scheme must be https"
    if not host:
        return "URL must have a host"
    if "@" in parts.netloc:
        return "URL must not contain a username or password"
    if "?" in url:
        return "URL must not contain a query"
    if "#" in url:
        return "URL must not contain a fragment"
    return ""


def _check_issuer(issuer: JwtIssuer, path: str, errors: FieldErrors) -> None:
    check_https_url(issuer.url, f"{path}.url", errors)
    if issuer.discovery_url:
        check_https_url(issuer.discovery_url, f"{path}.discoveryURL", errors)
        if issuer.discovery_url.rstrip("/") == issuer.url.rstrip("/"):
            message = "discoveryURL must be different from URL"
            errors.append(invalid(f"{path}.discoveryURL", issuer.discovery_url, message))
    if len(issuer.certificate_authority) > CERTIFICATE_AUTHORITY_LENGTH_MAX:
        message = names.too_long(CERTIFICATE_AUTHORITY_LENGTH_MAX)
        errors.append(invalid(f"{path}.certificateAuthority", "…", message))
    elif issuer.certificate_authority and "-----BEGIN CERTIFICATE-----" not in issuer.certificate_authority:
        errors.append(invalid(f"{path}.certificateAuthority", "…", "must be certificates in PEM"))
    _check_audiences(issuer, path, errors)


def _check_audiences(issuer: JwtIssuer, path: str, errors: FieldErrors) -> None:
    if not issuer.audiences:
        errors.append(required(f"{path}.audiences", "at least one audience is required"))
    _check_count(issuer.audiences, AUDIENCES_MAX, f"{path}.audiences", errors)
    for index, audience in enumerate(issuer.audiences[:AUDIENCES_MAX]):
        _check_text(audience, f"{path}.audiences[{index}]", errors, is_required=True)
        if audience in issuer.audiences[:index]:
            errors.append(duplicate(f"{path}.audiences[{index}]", audience))
    policy = issuer.audience_match_policy
    if policy not in ("", _MATCH_ANY):
        errors.append(not_supported(f"{path}.audienceMatchPolicy", policy, (_MATCH_ANY,)))
    elif len(issuer.audiences) > 1 and not policy:
        message = "audienceMatchPolicy must be MatchAny for multiple audiences"
        errors.append(invalid(f"{path}.audienceMatchPolicy", policy, message))


def _check_claim_rules(rules: Sequence[ClaimRule], path: str, errors: FieldErrors) -> None:
    _check_count(rules, RULES_MAX, path, errors)
    for index, rule in enumerate(rules[:RULES_MAX]):
        at = f"{path}[{index}]"
        for name, text in (
            ("claim", rule.claim),
            ("requiredValue", rule.required_value),
            ("expression", rule.expression),
            ("message", rule.message),
        ):
            _check_text(text, f"{at}.{name}", errors)
        if bool(rule.claim) == bool(rule.expression):
            errors.append(required(at, "exactly one of claim and expression is required"))
        elif rule.expression and rule.required_value:
            errors.append(forbidden(f"{at}.requiredValue", "may not be set together with expression"))
        elif rule.claim and rule.message:
            errors.append(forbidden(f"{at}.message", "may not be set together with claim"))
    _check_unique([rule.claim for rule in rules[:RULES_MAX]], path, "claim", errors)
    _check_unique([rule.expression for rule in rules[:RULES_MAX]], path, "expression", errors)


def _check_mappings(given: JwtAuthenticator, path: str, errors: FieldErrors) -> None:
    mappings = given.claim_mappings
    username = mappings.username
    if bool(username.claim) == bool(username.expression):
        errors.append(required(f"{path}.username", "exactly one of claim and expression is required"))
    _check_prefixed(username, f"{path}.username", errors)
    _check_prefixed(mappings.groups, f"{path}.groups", errors)
    uid = mappings.uid
    if uid.claim and uid.expression:
        errors.append(invalid(f"{path}.uid", "", "claim and expression may not both be set"))
    _check_text(uid.claim, f"{path}.uid.claim", errors)
    _check_text(uid.expression, f"{path}.uid.expression", errors)
    _check_count(mappings.extra, RULES_MAX, f"{path}.extra", errors)
    for index, extra in enumerate(mappings.extra[:RULES_MAX]):
        _check_extra_key(extra.key, f"{path}.extra[{index}].key", errors)
        at = f"{path}.extra[{index}].valueExpression"
        _check_text(extra.value_expression, at, errors, is_required=True)
    _check_unique([extra.key for extra in mappings.extra[:RULES_MAX]], f"{path}.extra", "key", errors)
    if _EMAIL.search(username.expression) and not _verifies_email(given):
        message = (
            "claims.email_verified must be used in claimMappings.username.expression or "
            "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email "
            "is used in claimMappings.username.expression"
        )
        errors.append(invalid(f"{path}.username.expression", username.expression, message))


def _verifies_email(given: JwtAuthenticator) -> bool:
    expressions = (
        given.claim_mappings.username.expression,
        *(extra.value_expression for extra in given.claim_mappings.extra),
        *(rule.expression for rule in given.claim_validation_rules),
    )
    return any(_EMAIL_VERIFIED.search(each) for each in expressions)


def _check_prefixed(mapping: PrefixedClaim, path: str, errors: FieldErrors) -> None:
    _check_text(mapping.claim, f"{path}.claim", errors)
    _check_text(mapping.expression, f"{path}.expression", errors)
    _check_text(mapping.prefix or "", f"{path}.prefix", errors)
    if mapping.claim and mapping.expression:
        errors.append(invalid(path, "", "claim and expression may not both be set"))
    elif mapping.claim and mapping.prefix is None:
        errors.append(required(f"{path}.prefix", "prefix is required when claim is set; it may be empty"))
    elif mapping.prefix is not None and not mapping.claim:
        errors.append(forbidden(f"{path}.prefix", "may be set together with claim only"))
    if (mapping.prefix or "").startswith(RESERVED_PREFIX):
        message = f"names that begin with {RESERVED_PREFIX} are Kubernetes' own"
        errors.append(invalid(f"{path}.prefix", mapping.prefix, message))


def _check_extra_key(key: str, path: str, errors: FieldErrors) -> None:
    domain, slash, rest = key.partition("/")
    if not key:
        errors.append(required(path))
    elif len(key) > TEXT_LENGTH_MAX or not slash or not rest or names.dns_subdomain(domain):
        errors.append(
            invalid(path, key[:256], "must be a domain-prefixed path, such as example.com/department")
        )
    elif key != key.lower() or not _EXTRA_PATH.fullmatch(rest):
        errors.append(invalid(path, key, "must be in lower case, and a valid path after the domain"))
    elif any(domain == each or domain.endswith(f".{each}") for each in _RESERVED_DOMAINS):
        errors.append(invalid(path, key, f"the domain {domain} is reserved"))


def _check_text(text: str, path: str, errors: FieldErrors, *, is_required: bool = False) -> None:
    if is_required and not text:
        errors.append(required(path))
    elif len(text) > TEXT_LENGTH_MAX:
        errors.append(invalid(path, f"{text[:64]}…", names.too_long(TEXT_LENGTH_MAX)))


def _check_count(items: Sequence[object], most: int, path: str, errors: FieldErrors) -> None:
    if len(items) > most:
        errors.append(too_many(path, len(items), most))


def _check_unique(texts: Sequence[str], path: str, name: str, errors: FieldErrors) -> None:
    for index, text in enumerate(texts):
        if text and text in texts[:index]:
            errors.append(duplicate(f"{path}[{index}].{name}", text))
