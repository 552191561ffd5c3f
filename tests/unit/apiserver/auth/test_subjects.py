"""Subjects: one tenant in O, groups in OU, the user in CN; anything else is rejected."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.apiserver.auth import subjects
from alcove.apiserver.auth.subjects import Subject, SubjectError

O, OU, CN = NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME  # noqa: E741

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True).filter(
    lambda name: name != "all"
)
texts = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=64).filter(
    str.isprintable
)


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


@settings(deadline=None)
@given(labels, texts, st.lists(texts, max_size=4, unique=True))
def test_a_written_subject_is_parsed_back(tenant: str, user: str, groups: list[str]) -> None:
    subject = Subject(TenantId(tenant), user, tuple(groups))
    encoded = subjects.to_name(subject).public_bytes()
    assert subjects.from_name(subjects.to_name(subject)) == subject
    assert encoded


def test_the_order_of_attributes_does_not_matter() -> None:
    found = subjects.from_name(name((CN, "ann"), (OU, "dev"), (O, "tenant:acme"), (OU, "ops")))
    assert found == Subject(TenantId("acme"), "ann", ("dev", "ops"))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([(CN, "ann")], "exactly one organization, O=tenant:T, is needed .* found none"),
        ([(O, "acme"), (CN, "ann")], "found 'acme'"),
        ([(O, "tenant:acme"), (O, "tenant:other"), (CN, "ann")], "found 'tenant:acme', 'tenant:other'"),
        ([(O, "tenant:acme"), (O, "tenant:acme"), (CN, "ann")], "exactly one organization"),
        ([(O, "tenant:acme"), (O, "system:masters"), (CN, "ann")], "exactly one organization"),
        ([(O, "Tenant:acme"), (CN, "ann")], "exactly one organization"),
        ([(O, "tenant:"), (CN, "ann")], "DNS label"),
        ([(O, "tenant:all"), (CN, "ann")], "stands for all tenants"),
        ([(O, "tenant:Acme"), (CN, "ann")], "DNS label"),
        ([(O, "tenant:a.b"), (CN, "ann")], "DNS label"),
        ([(O, "tenant:acme\n"), (CN, "ann")], "DNS label"),
        ([(O, "tenant:acme/../system"), (CN, "ann")], "DNS label"),
        ([(O, "tenant:" + "a" * 64), (CN, "ann")], "DNS label"),
        ([(O, "tenant:\u0430cme"), (CN, "ann")], "DNS label"),
        ([(O, "tenant:acme")], "exactly one common name"),
        ([(O, "tenant:acme"), (CN, "ann"), (CN, "bob")], "exactly one common name"),
        ([(O, "tenant:acme"), (CN, "an\x00n")], "printable"),
        ([(O, "tenant:acme"), (CN, "an\nn")], "printable"),
        ([(O, "tenant:acme"), (CN, "ann"), (OU, "a\tb")], "printable"),
    ],
)
def test_refused(parts: list[tuple[x509.ObjectIdentifier, str]], message: str) -> None:
    with pytest.raises(SubjectError, match=message):
        subjects.from_name(name(*parts))


@pytest.mark.parametrize(
    "subject",
    [
        Subject(TenantId("all"), "ann"),
        Subject(TenantId(""), "ann"),
        Subject(TenantId("acme"), ""),
        Subject(TenantId("acme"), "a" * 65),
        Subject(TenantId("acme"), "ann", ("",)),
    ],
)
def test_what_would_be_refused_is_not_written(subject: Subject) -> None:
    with pytest.raises(SubjectError):
        subjects.to_name(subject)
