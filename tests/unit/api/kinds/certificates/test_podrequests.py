"""Certificates of pods: a request proves its key, and is answered once."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from alcove.api import meta
from alcove.api.kinds.certificates import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["podcertificaterequests"]
KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pod")])
BEGIN = datetime(2027, 1, 15, 8, tzinfo=UTC)


def stub(key: Any) -> str:
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.DER)).decode()


STUB = stub(KEY)


def request(**spec: Any) -> Object:
    fixed = {
        "signerName": "example.com/mine",
        "podName": "p",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": "n",
        "nodeUID": "3",
        "maxExpirationSeconds": 86_400,
        "stubPKCS10Request": STUB,
    }
    return {"metadata": {"name": "r"}, "spec": {**fixed, **spec}}


def forged() -> str:
    data = bytearray(base64.b64decode(STUB))
    data[-1] ^= 1
    return base64.b64encode(bytes(data)).decode()


REQUESTS: list[tuple[Object, list[str]]] = [
    (request(), []),
    (request(podUID=""), ['spec.podUID: Invalid value: "": must not be empty']),
    (request(nodeUID="x" * 129), ["spec.nodeUID: Too long: may not be more than 128 bytes"]),
    (request(maxExpirationSeconds=60), [
        "spec.maxExpirationSeconds: Invalid value: 60: must be in the range [3600, 7862400]"]),
    (request(signerName="kubernetes.io/pods", maxExpirationSeconds=90_000), [
        "spec.maxExpirationSeconds: Invalid value: 90000: must be in the range [3600, 86400]"]),
    (request(stubPKCS10Request="AAAA"), ["spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"]),
    (request(stubPKCS10Request=stub(rsa.generate_private_key(65537, 2048))), [
        "spec.stubPKCS10Request: Invalid value: RSA keys must have modulus size 3072 or 4096"]),
    (request(stubPKCS10Request=forged()), ["spec.stubPKCS10Request: Invalid value: invalid signature"]),
    (request(stubPKCS10Request=""), [
        "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), REQUESTS)
def test_requests_are_checked(obj: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGY.validate_create(obj)] == expected


def chain(key: Any = KEY, hours: float = 12) -> str:
    end = BEGIN + timedelta(hours=hours)
    made = x509.CertificateBuilder(NAME, NAME, key.public_key(), 1, BEGIN, end)
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def answered(kind: str = "Issued", **status: Any) -> Object:
    condition = {
        "type": kind,
        "status": "True",
        "reason": "Done",
        "lastTransitionTime": meta.format_time(BEGIN.timestamp()),
    }
    return {**request(), "status": {"conditions": [condition], **status}}


def times(hours: float = 12, refresh: float = 6) -> Object:
    begin = BEGIN.timestamp()
    return {
        "notBefore": meta.format_time(begin),
        "notAfter": meta.format_time(begin + hours * 3600),
        "beginRefreshAt": meta.format_time(begin + refresh * 3600),
    }


STATUSES: list[tuple[Object, str]] = [
    (answered(certificateChain=chain(), **times()), ""),
    (answered("Denied"), ""),
    (answered("Denied", certificateChain=chain()), "must be empty when denying"),
    (answered("Approved"), 'Unsupported value: "Approved"'),
    (answered(certificateChain=""), "must contain at least one certificate"),
    (answered(certificateChain=chain(OTHER), **times()), "not issued to the requested public key"),
    (answered(certificateChain=chain()), "must be present"),
    (answered(certificateChain=chain(), **times(hours=13)), "NotAfter time encoded in the leaf"),
    (answered(certificateChain=chain(hours=0.5), **times(hours=0.5, refresh=0.2)), "lifetime must be >= 1 hour"),
    (answered(certificateChain=chain(hours=30), **times(hours=30)), "must be <= spec.maxExpirationSeconds (86400)"),
    (answered(certificateChain=chain(), **times(refresh=11.9)), "10 minutes before status.notAfter"),
    ({**request(), "status": {"certificateChain": chain()}}, "immutable unless transitioning"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), STATUSES)
def test_answers_are_checked(obj: Object, expected: str) -> None:
    errors = [str(error) for error in STRATEGY.validate_status(obj, request())]
    assert (expected in " ".join(errors)) if expected else errors == []


def test_an_answer_is_final() -> None:
    issued = answered(certificateChain=chain(), **times())
    assert not STRATEGY.validate_status(issued, issued)
    assert "immutable after" in str(STRATEGY.validate_status(answered("Denied"), issued)[0])


def test_the_request_stays() -> None:
    assert STRATEGY.validate_update(request(podName="other"), request())
    assert not STRATEGY.validate_update(request(), request())
