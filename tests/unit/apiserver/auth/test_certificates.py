"""The certificate authority: created once, kept, repaired or rejected; and the certificates that it issues."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from alcove.api.ids import TenantId
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.certificates import AUTHORITY_LIFETIME, BACKDATE, CertificateAuthority
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.auth.subjects import Subject

NOW = 1_800_000_000.0
ANN = Subject(TenantId("acme"), "ann", ("dev",))


def test_is_made_on_first_start_and_survives_restarts(tmp_path: Path) -> None:
    first, second = CertificateAuthority.open(tmp_path, NOW), CertificateAuthority.open(tmp_path, NOW + 1000)
    assert first.certificate == second.certificate
    issued = x509.load_pem_x509_certificate(first.client(ANN, NOW).certificate_pem)
    assert certificates.issued_by(issued, second.certificate)
    years = first.certificate.not_valid_after_utc - first.certificate.not_valid_before_utc
    assert years == AUTHORITY_LIFETIME + BACKDATE


def test_a_start_that_died_before_the_certificate_is_finished(tmp_path: Path) -> None:
    issued = CertificateAuthority.open(tmp_path, NOW).client(ANN, NOW)
    (tmp_path / "ca.crt").unlink()
    again = CertificateAuthority.open(tmp_path, NOW)
    assert certificates.issued_by(x509.load_pem_x509_certificate(issued.certificate_pem), again.certificate)


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    CertificateAuthority.open(tmp_path, NOW)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(KeyFileError, match=r"ca\.crt exists but .*ca\.key does not; restore the key"):
        CertificateAuthority.open(tmp_path, NOW)


def test_a_pair_that_does_not_match_is_refused(tmp_path: Path) -> None:
    CertificateAuthority.open(tmp_path / "a", NOW)
    CertificateAuthority.open(tmp_path / "b", NOW)
    (tmp_path / "a" / "ca.key").write_bytes((tmp_path / "b" / "ca.key").read_bytes())
    with pytest.raises(KeyFileError, match=r"ca\.crt does not belong to .*ca\.key"):
        CertificateAuthority.open(tmp_path / "a", NOW)


@pytest.mark.parametrize(
    ("file", "message"), [("ca.key", "no unencrypted PEM private key"), ("ca.crt", "no PEM certificate")]
)
def test_a_broken_file_is_named(tmp_path: Path, file: str, message: str) -> None:
    CertificateAuthority.open(tmp_path, NOW)
    (tmp_path / file).write_text("rubbish")
    with pytest.raises(KeyFileError, match=f"{file} holds {message}"):
        CertificateAuthority.open(tmp_path, NOW)


def test_a_server_certificate_is_no_authority(tmp_path: Path) -> None:
    authority = CertificateAuthority.open(tmp_path, NOW)
    issued = authority.serving(["localhost"], NOW)
    (tmp_path / "ca.key").write_bytes(issued.key_pem)
    (tmp_path / "ca.crt").write_bytes(issued.certificate_pem)
    with pytest.raises(KeyFileError, match="is not a CA certificate"):
        CertificateAuthority.open(tmp_path, NOW)


def test_an_expired_authority_raises_an_error_with_instructions(tmp_path: Path) -> None:
    CertificateAuthority.open(tmp_path, NOW)
    later = NOW + AUTHORITY_LIFETIME.total_seconds() + 1
    with pytest.raises(KeyFileError, match=r"expired on .* remove the certificate"):
        CertificateAuthority.open(tmp_path, later)
    (tmp_path / "ca.crt").unlink()
    assert CertificateAuthority.open(tmp_path, later).certificate.not_valid_after_utc.timestamp() > later


def test_an_authority_of_somebody_elses_with_an_rsa_key_works(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "ca.key").write_bytes(certificates.to_pem(key))
    authority = CertificateAuthority.open(tmp_path, NOW)
    issued = x509.load_pem_x509_certificate(authority.client(ANN, NOW).certificate_pem)
    assert certificates.issued_by(issued, authority.certificate)


def test_a_client_certificate_is_for_clients_only_and_backdated(tmp_path: Path) -> None:
    issued = CertificateAuthority.open(tmp_path, NOW).client(ANN, NOW, timedelta(hours=1))
    certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.not_valid_before_utc.timestamp() == NOW - BACKDATE.total_seconds()
    assert certificate.not_valid_after_utc.timestamp() == NOW + 3600
    assert certificate.subject.rfc4514_string() == "CN=ann,OU=dev,O=tenant:acme"


def test_nothing_outlives_the_authority(tmp_path: Path) -> None:
    authority = CertificateAuthority.open(tmp_path, NOW)
    issued = authority.client(ANN, NOW, timedelta(days=20_000))
    certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
    assert certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_a_serving_certificate_lists_names_and_addresses(tmp_path: Path) -> None:
    issued = CertificateAuthority.open(tmp_path, NOW).serving(["localhost", "10.0.0.1", "::1"], NOW)
    certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]


@pytest.mark.parametrize("make", [certificates.new_key, partial(rsa.generate_private_key, 65537, 2048)])
def test_all_servers_derive_the_same_authority_for_nodes(
    tmp_path: Path, make: Callable[[], certificates.PrivateKey]
) -> None:
    (tmp_path / "ca.key").write_bytes(certificates.to_pem(make()))
    first, second = (CertificateAuthority.open(tmp_path, NOW) for _ in range(2))
    issued = first.for_nodes(NOW).serving(["n1"], NOW + 1)
    certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
    assert certificates.issued_by(certificate, second.for_nodes(NOW + 100).certificate)
    assert not certificates.issued_by(certificate, first.certificate)
