"""The caller's name in a certificate: `O=tenant:T` exactly once, groups in OU, the user in CN.

Only this module knows the form; issuing, signing and authentication use it. A subject that names no tenant,
or more than one, is invalid.
"""

from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

from alcove.api import names
from alcove.api.ids import ALL, TenantId

TENANT_PREFIX = "tenant:"
COMMON_NAME_LENGTH_MAX = 64
"""The limit of X.509 (ub-common-name)."""


class SubjectError(ValueError):
    """A subject that does not have this form; the message says what is expected."""


class Subject(Struct, frozen=True):
    tenant: TenantId
    user: str
    groups: tuple[str, ...] = ()


def checked_tenant(name: str) -> TenantId:
    """`name` as the tenant of a credential. Raises SubjectError."""
    if name == ALL:
        raise SubjectError('"all" stands for all tenants and cannot be a caller\'s tenant')
    if names.dns_label(name):
        raise SubjectError(f"{name!r} is not a valid tenant name: it must be a DNS label")
    return TenantId(name)


def to_name(subject: Subject) -> x509.Name:
    """The subject as an X.509 name. Raises SubjectError for what `from_name` would reject."""
    checked_tenant(subject.tenant)
    if len(subject.user) > COMMON_NAME_LENGTH_MAX:
        raise SubjectError(f"a certificate's user name has at most {COMMON_NAME_LENGTH_MAX} characters")
    for text in (subject.user, *subject.groups):
        _checked_text(text)
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, TENANT_PREFIX + subject.tenant),
            *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, group) for group in subject.groups),
            x509.NameAttribute(NameOID.COMMON_NAME, subject.user),
        ]
    )


def from_name(name: x509.Name) -> Subject:
    """The subject in an X.509 name. Raises SubjectError."""
    organizations = _values(name, NameOID.ORGANIZATION_NAME)
    if len(organizations) != 1 or not organizations[0].startswith(TENANT_PREFIX):
        message = ", ".join(repr(organization) for organization in organizations) or "none"
        raise SubjectError(
            f"exactly one organization, O=tenant:T, is needed (groups go in OU); found {message}"
        )
    users = _values(name, NameOID.COMMON_NAME)
    if len(users) != 1:
        raise SubjectError("exactly one common name (CN), the user, is needed")
    tenant = checked_tenant(organizations[0].removeprefix(TENANT_PREFIX))
    groups = dict.fromkeys(_values(name, NameOID.ORGANIZATIONAL_UNIT_NAME))
    for text in (users[0], *groups):
        _checked_text(text)
    return Subject(tenant, users[0], tuple(groups))


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> Sequence[str]:
    """The attribute's values as text. Raises SubjectError for bytes, which X.509 allows too."""
    values = [attribute.value for attribute in name.get_attributes_for_oid(oid)]
    if not all(isinstance(value, str) for value in values):
        raise SubjectError("names in a certificate's subject must be text")
    return [str(value) for value in values]


def _checked_text(text: str) -> None:
    if not text or not text.isprintable():
        raise SubjectError("user and group names must be printable and not empty")
