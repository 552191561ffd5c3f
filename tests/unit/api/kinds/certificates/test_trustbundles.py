"""Trust bundles: named for their signer, with certificates of authorities and nothing else."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.api.kinds.certificates import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["clustertrustbundles"]
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(name: str, *, ca: bool | None = True) -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, now, now + timedelta(days=1))
    if ca is not None:
        made = made.add_extension(x509.BasicConstraints(ca, None), critical=True)
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


CA, OTHER, LEAF, PLAIN = (
    certificate("a"),
    certificate("b"),
    certificate("c", ca=False),
    certificate("d", ca=None),
)
HEADERS = CA.replace("-----\n", "-----\nkey: value\n\n", 1)
BROKEN = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
REQUEST = CA.replace("CERTIFICATE", "CERTIFICATE REQUEST")
VALUE = 'spec.trustBundle: Invalid value: "<value omitted>": '


def bundle(text: str, name: str = "roots", **spec: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"trustBundle": text, **spec}}


def errors(obj: Object) -> list[str]:
    return [str(error) for error in (*STRATEGY.validate(obj), *STRATEGY.validate_create(obj))]


TEXTS: list[tuple[str, list[str]]] = [
    (CA, []),
    (f"a comment\n{CA}{OTHER}", []),
    ("", [f"{VALUE}at least one trust anchor must be provided"]),
    (CA + LEAF, [f"{VALUE}entry 1 does not have the CA bit set"]),
    (PLAIN, [f"{VALUE}entry 0 does not have the CA bit set"]),
    (REQUEST, [f"{VALUE}entry 0 has bad block type: CERTIFICATE REQUEST"]),
    (HEADERS, [f"{VALUE}entry 0 has PEM block headers"]),
    (BROKEN, [f"{VALUE}entry 0 does not parse as X.509"]),
    (CA + OTHER + CA, [f"{VALUE}duplicate trust anchor (indices [0 2])"]),
    ("x" * ((1 << 20) + 1), ["spec.trustBundle: Too long: may not be more than 1048576 bytes"]),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_only_certificates_of_authorities(text: str, expected: list[str]) -> None:
    assert errors(bundle(text)) == expected


def test_the_name_tells_the_signer() -> None:
    signer = {"signerName": "example.com/mine"}
    assert errors(bundle(CA, "example.com:mine:v1", **signer)) == []
    assert "must be named with prefix example.com:mine:" in errors(bundle(CA, "v1", **signer))[0]
    assert 'must not have ":" in its name' in errors(bundle(CA, "example.com:mine:v1"))[0]


def test_the_signer_stays_and_old_certificates_are_not_judged_again() -> None:
    old = bundle(BROKEN)
    assert not STRATEGY.validate_update({**old, "metadata": {"name": "roots", "labels": {"a": "b"}}}, old)
    assert STRATEGY.validate_update(bundle(LEAF), old)
    assert "field is immutable" in str(STRATEGY.validate_update(bundle(BROKEN, signerName="a.b/c"), old)[0])
