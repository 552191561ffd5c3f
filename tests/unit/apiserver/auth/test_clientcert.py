"""Identities from certificates, and certificates that are rejected."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth import certificates, clientcert, subjects
from alcove.apiserver.auth.certificates import CertificateAuthority, CertificateProfile
from alcove.apiserver.auth.subjects import Subject

NOW = 1_800_000_000.0
DAY = timedelta(days=1)
ANN = Subject(TenantId("acme"), "ann", ("dev", "system:masters"))
CLIENT = CertificateProfile([ExtendedKeyUsageOID.CLIENT_AUTH])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    directory: Path = tmp_path_factory.mktemp("pki")
    return CertificateAuthority.open(directory, NOW)


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def signed(
    authority: CertificateAuthority, name: x509.Name, profile: CertificateProfile = CLIENT, now: float = NOW
) -> bytes:
    key = certificates.new_key().public_key()
    return der(authority.sign(key, name, profile, now, DAY))


def test_the_subject_becomes_the_identity(authority: CertificateAuthority) -> None:
    found = clientcert.identify(signed(authority, subjects.to_name(ANN)), NOW)
    assert (found.tenant, found.user) == ("acme", "ann")
    assert found.groups == ("dev", "system:masters", "system:authenticated")
    assert found.expires == NOW + DAY.total_seconds()
    assert found.issued == NOW
    (fingerprint,) = found.extra["authentication.kubernetes.io/credential-id"]
    assert fingerprint.startswith("X509SHA256=")


def test_ring0_is_named_like_any_tenant(authority: CertificateAuthority) -> None:
    name = subjects.to_name(Subject(SYSTEM, "system:kube-scheduler"))
    assert clientcert.identify(signed(authority, name), NOW).is_system


def test_a_certificate_that_comes_again_is_not_read_again_but_its_dates_are_checked(
    authority: CertificateAuthority,
) -> None:
    encoded = signed(authority, subjects.to_name(ANN))
    first = clientcert.identify(encoded, NOW)
    assert clientcert.identify(bytes(bytearray(encoded)), NOW) is first
    for now, message in (
        (NOW + 2 * DAY.total_seconds(), "expired"),
        (NOW - DAY.total_seconds(), "not valid before"),
    ):
        with pytest.raises(Unauthorized, match=message):
            clientcert.identify(encoded, now)


def test_a_certificate_is_valid_until_its_last_second(authority: CertificateAuthority) -> None:
    encoded = signed(authority, subjects.to_name(ANN))
    assert clientcert.identify(encoded, NOW + DAY.total_seconds()).user == "ann"


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


ORGANIZATION, USER = NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME
SERVER = CertificateProfile([ExtendedKeyUsageOID.SERVER_AUTH])

ATTACKS: dict[str, tuple[Callable[[CertificateAuthority], bytes], float, str]] = {
    "no tenant": (lambda ca: signed(ca, name((USER, "ann"))), NOW, "exactly one organization"),
    "a group where the tenant belongs": (
        lambda ca: signed(ca, name((ORGANIZATION, "system:masters"), (USER, "ann"))),
        NOW,
        "exactly one organization",
    ),
    "two tenants": (
        lambda ca: signed(
            ca, name((ORGANIZATION, "tenant:acme"), (ORGANIZATION, "tenant:system"), (USER, "a"))
        ),
        NOW,
        "exactly one organization",
    ),
    "another organization beside the tenant": (
        lambda ca: signed(
            ca, name((ORGANIZATION, "tenant:acme"), (ORGANIZATION, "system:masters"), (USER, "a"))
        ),
        NOW,
        "exactly one organization",
    ),
    "every tenant": (
        lambda ca: signed(ca, name((ORGANIZATION, "tenant:all"), (USER, "ann"))),
        NOW,
        "stands for all tenants",
    ),
    "a tenant that is no label": (
        lambda ca: signed(ca, name((ORGANIZATION, "tenant:acme/system"), (USER, "ann"))),
        NOW,
        "DNS label",
    ),
    "no user": (lambda ca: signed(ca, name((ORGANIZATION, "tenant:acme"))), NOW, "exactly one common name"),
    "expired": (
        lambda ca: signed(ca, subjects.to_name(ANN)),
        NOW + DAY.total_seconds() + 1,
        "expired at .*; get a new one",
    ),
    "not valid yet": (lambda ca: signed(ca, subjects.to_name(ANN)), NOW - 301, "not valid before"),
    "for servers": (
        lambda ca: signed(ca, subjects.to_name(ANN), SERVER),
        NOW,
        "not for client authentication",
    ),
    "the authority's own": (lambda ca: der(ca.certificate), NOW, "exactly one organization"),
    "the server's own": (
        lambda ca: der(x509.load_pem_x509_certificate(ca.serving(["localhost"], NOW).certificate_pem)),
        NOW,
        "exactly one organization",
    ),
    "not a certificate": (lambda ca: b"\x30\x03abc", NOW, "cannot be read"),
    "empty": (lambda ca: b"", NOW, "cannot be read"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_refused(authority: CertificateAuthority, attack: str) -> None:
    make, now, message = ATTACKS[attack]
    with pytest.raises(Unauthorized, match=message) as refusal:
        clientcert.identify(make(authority), now)
    assert refusal.value.code == 401
