from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from alcove.agent.server.callers import AuthorizedCallers
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.client.keys import HOME, PlaneId

NOW = 1_700_000_000.0
API_SERVER = Subject(SYSTEM, API_SERVER_USER, (API_SERVER_GROUP,))


def shown(authority: CertificateAuthority, subject: Subject) -> bytes:
    issued = authority.client(subject, NOW, timedelta(days=1))
    certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
    return certificate.public_bytes(serialization.Encoding.DER)


@pytest.fixture
def home(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path / "home", NOW)


@pytest.fixture
def callers(tmp_path: Path, home: CertificateAuthority) -> AuthorizedCallers:
    issued = home.serving(["127.0.0.1"], NOW)
    pair = tmp_path / "pair.pem"
    pair.write_bytes(issued.certificate_pem + issued.key_pem)
    made = AuthorizedCallers(pair)
    made.trust(HOME, home.certificate_pem)
    return made


def test_api_servers_are_known_by_who_signed_for_them(
    tmp_path: Path, home: CertificateAuthority, callers: AuthorizedCallers
) -> None:
    own = CertificateAuthority.open(tmp_path / "acme", NOW)
    acme = PlaneId("acme")
    with pytest.raises(Forbidden):
        callers.plane_of(shown(own, API_SERVER))
    callers.trust(acme, own.certificate_pem)
    assert callers.plane_of(shown(home, API_SERVER)) == HOME
    assert callers.plane_of(shown(own, API_SERVER)) == acme
    callers.distrust(acme)
    with pytest.raises(Forbidden):
        callers.plane_of(shown(own, API_SERVER))


@pytest.mark.parametrize(
    "subject",
    [
        Subject(SYSTEM, "admin", ("system:masters",)),
        Subject(SYSTEM, API_SERVER_USER),
        Subject(SYSTEM, API_SERVER_USER, (API_SERVER_GROUP, "more")),
        Subject(TenantId("acme"), API_SERVER_USER, (API_SERVER_GROUP,)),
        Subject(SYSTEM, "system:node:other", ("system:nodes",)),
    ],
)
def test_other_callers_are_rejected(
    home: CertificateAuthority, callers: AuthorizedCallers, subject: Subject
) -> None:
    with pytest.raises(Forbidden):
        callers.plane_of(shown(home, subject))


def foreign_certificate(authority: CertificateAuthority, name: str) -> bytes:
    key = certificates.new_key()
    attributes = ((NameOID.ORGANIZATION_NAME, "system:masters"), (NameOID.COMMON_NAME, name))
    subject = x509.Name([x509.NameAttribute(*each) for each in attributes])
    profile = certificates.CertificateProfile(usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
    signed = authority.sign(key.public_key(), subject, profile, NOW, timedelta(days=1))
    return signed.public_bytes(serialization.Encoding.DER)


def test_foreign_api_servers_are_known_by_authority_and_name(
    tmp_path: Path, home: CertificateAuthority, callers: AuthorizedCallers
) -> None:
    own = CertificateAuthority.open(tmp_path / "initech", NOW)
    initech = PlaneId("initech")
    callers.trust(initech, own.certificate_pem, "kubelet-client")
    assert callers.is_foreign(initech) and not callers.is_foreign(HOME)
    assert callers.plane_of(foreign_certificate(own, "kubelet-client")) == initech
    for shown_certificate in (
        foreign_certificate(own, "alice"),
        foreign_certificate(home, "kubelet-client"),
        shown(own, API_SERVER),
    ):
        with pytest.raises(Forbidden):
            callers.plane_of(shown_certificate)


def test_api_server_of_one_of_two_planes_with_one_authority_is_refused(
    tmp_path: Path, callers: AuthorizedCallers
) -> None:
    """Otherwise it would be asking for the other tenant's pods."""
    own = CertificateAuthority.open(tmp_path / "initech", NOW)
    for plane in ("initech", "initrode"):
        callers.trust(PlaneId(plane), own.certificate_pem, "kubelet-client")
    with pytest.raises(Forbidden):
        callers.plane_of(foreign_certificate(own, "kubelet-client"))
    callers.distrust(PlaneId("initech"))
    assert callers.plane_of(foreign_certificate(own, "kubelet-client")) == "initrode"
