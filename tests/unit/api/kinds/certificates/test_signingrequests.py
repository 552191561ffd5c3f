"""Signing requests: what is asked is real and stays, and only approval approves."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.api.kinds.certificates import STRATEGIES, signingrequests
from alcove.api.objects import Object

STRATEGY = STRATEGIES["certificatesigningrequests"]
KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
_csr = x509.CertificateSigningRequestBuilder().subject_name(NAME).sign(KEY, hashes.SHA256())
CSR = _csr.public_bytes(serialization.Encoding.PEM)
_certificate = (
    x509.CertificateBuilder()
    .subject_name(NAME)
    .issuer_name(NAME)
    .public_key(KEY.public_key())
    .serial_number(1)
    .not_valid_before(datetime.now(UTC))
    .not_valid_after(datetime.now(UTC) + timedelta(days=1))
    .sign(KEY, hashes.SHA256())
)
CERTIFICATE = _certificate.public_bytes(serialization.Encoding.PEM)
NOW = "2024-05-01T10:00:00Z"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def forged() -> bytes:
    """The request with its signature's last byte changed."""
    der = bytearray(_csr.public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    body = base64.encodebytes(bytes(der))
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + body + b"-----END CERTIFICATE REQUEST-----\n"


def request(**spec: object) -> Object:
    asked = {"request": b64(CSR), "signerName": "example.com/signer", "usages": ["client auth"], **spec}
    return {"metadata": {"name": "a"}, "spec": asked}


def condition(kind: str, status: str = "True", **fields: str) -> Object:
    return {"type": kind, "status": status, **fields}


def with_status(*conditions: Object, certificate: bytes = b"") -> Object:
    status: Object = {"conditions": list(conditions)}
    if certificate:
        status["certificate"] = b64(certificate)
    return {**request(), "status": status}


NOT_A_REQUEST = "PEM block type must be CERTIFICATE REQUEST"
CASES: list[tuple[Object, list[str]]] = [
    (request(), []),
    (request(expirationSeconds=600, usages=["client auth", "digital signature"]), []),
    (request(expirationSeconds=599), [
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"]),
    (request(request=b64(b"x")), [f'spec.request: Invalid value: "{b64(b"x")}": {NOT_A_REQUEST}']),
    (request(request="%"), [f'spec.request: Invalid value: "%": {NOT_A_REQUEST}']),
    (request(request=b64(CERTIFICATE)), [f'spec.request: Invalid value: "{b64(CERTIFICATE)}": {NOT_A_REQUEST}']),
    (request(request=b64(forged())), [
        f'spec.request: Invalid value: "{b64(forged())}": x509: signature does not match the request\'s key']),
    (request(usages=[]), ["spec.usages: Required value"]),
    (request(usages=["any", "any"]), ['spec.usages[1]: Duplicate value: "any"']),
    (request(signerName=""), ["spec.signerName: Required value"]),
    (request(signerName="kubernetes.io/legacy-unknown"), [
        'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version']),
    (request(signerName="signer"), [
        "spec.signerName: Invalid value: \"signer\": must be a fully qualified domain and path of the form 'example.com/signer-name'"]),
    (request(signerName="local/signer"), [
        'spec.signerName: Invalid value: "local": should be a domain with at least two segments separated by dots']),
]  # fmt: skip


@pytest.mark.parametrize(("csr", "expected"), CASES)
def test_request(csr: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGY.validate(csr)] == expected


def test_an_unknown_usage_is_answered_with_the_known_ones() -> None:
    [error] = STRATEGY.validate(request(usages=["world domination"]))
    assert error.field == "spec.usages[0]"
    assert '"any", "cert sign", "client auth"' in error.body


@pytest.mark.timeout(60)
def test_hostile_pem_takes_linear_time() -> None:
    [error] = STRATEGY.validate(request(request=b64(b"-----BEGIN A-----\n" * 150_000)))
    assert error.body.endswith(NOT_A_REQUEST)


def test_clients_cannot_set_the_requesting_user() -> None:
    csr = request(username="root", groups=["system:masters"], uid="0", extra={"a": ["b"]})
    STRATEGY.prepare_create(csr)
    assert set(csr["spec"]) == {"request", "signerName", "usages"}


def test_spec_is_immutable() -> None:
    new, old = request(usages=["any"]), request()
    STRATEGY.prepare_update(new, old)
    assert new["spec"] == old["spec"]


APPROVED = condition("Approved")
STATUSES: list[tuple[Object, Object, list[str]]] = [
    (with_status(certificate=CERTIFICATE), with_status(), []),
    (with_status(certificate=CERTIFICATE * 2), with_status(), []),
    (with_status(certificate=CERTIFICATE * 2), with_status(certificate=CERTIFICATE), [
        "status.certificate: Forbidden: updates may not modify existing certificate content"]),
    (with_status(certificate=CSR), with_status(), [
        'status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"']),
    (with_status(certificate=b"no"), with_status(), [
        'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block']),
    (with_status(APPROVED), with_status(), [
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"']),
    (with_status(), with_status(APPROVED), [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"']),
    (with_status(condition("Approved", message="x")), with_status(APPROVED), [
        'status.conditions: Forbidden: updates may not modify a condition of type "Approved"']),
    (with_status(condition("Failed")), with_status(), []),
    (with_status(condition("Failed", "False")), with_status(), [
        'status.conditions[0].status: Unsupported value: "False": supported values: "True"']),
    (with_status(condition("Mine", "Maybe"), {"type": ""}), with_status(), [
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        "status.conditions[1].type: Required value",
        "status.conditions[1].status: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "old", "expected"), STATUSES)
def test_status(new: Object, old: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGY.validate_status(new, old)] == expected


def test_approval_changes_only_conditions() -> None:
    old = with_status(certificate=CERTIFICATE)
    new = {**with_status(APPROVED, certificate=CSR), "spec": {}}
    signingrequests.prepare_approval(new, old, NOW)
    assert not signingrequests.validate_approval(new, old)
    assert new["spec"] == old["spec"]
    assert new["status"]["certificate"] == old["status"]["certificate"]
    [approved] = new["status"]["conditions"]
    assert approved["lastUpdateTime"] == approved["lastTransitionTime"] == NOW


def test_approval_keeps_when_a_condition_changed() -> None:
    old = with_status(condition("Approved", lastTransitionTime="2020-01-01T00:00:00Z"))
    new = with_status(condition("Approved", reason="again"))
    signingrequests.prepare_approval(new, old, NOW)
    assert new["status"]["conditions"][0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"


def test_nobody_is_both_approved_and_denied() -> None:
    old, new = with_status(APPROVED), with_status(APPROVED, condition("Denied"))
    assert [str(error) for error in signingrequests.validate_approval(new, old)] == [
        'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'
    ]
    assert [str(error) for error in signingrequests.validate_approval(with_status(), old)] == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    ]


def test_signer_is_selectable_and_names_are_free() -> None:
    assert STRATEGY.fields["spec.signerName"](request()) == "example.com/signer"
    assert STRATEGY.fields["spec.signerName"]({}) == ""
    assert STRATEGY.validate_name is not None
    assert not STRATEGY.validate_name("Any Name At All", False)
