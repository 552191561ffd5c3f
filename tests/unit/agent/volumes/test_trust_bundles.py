"""Trust bundles in pods: each certificate once, by name or by signer and labels, bounded in size."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.trust_bundles import FILE_BYTES_MAX, merged, projected
from alcove.api.objects import Object
from alcove.testing.lookups import looking_up, make_pod
from alcove.testing.server import Caller, LocalServer

BUNDLES = "/apis/certificates.k8s.io/v1/clustertrustbundles"
KEY = ec.generate_private_key(ec.SECP256R1())


def pem(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"


def authority(name: str) -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, now, now + timedelta(days=1))
    made = made.add_extension(x509.BasicConstraints(True, None), critical=True)
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def test_each_certificate_once_in_order() -> None:
    made = merged([f"comment\n{pem('b')}", pem("a") + pem("b")])
    assert made == (pem("b") + pem("a")).encode()
    assert merged([]) == merged([""]) == b""


def test_more_than_a_file_may_have_is_refused() -> None:
    with pytest.raises(VolumeFailure, match=str(FILE_BYTES_MAX)):
        merged(pem(f"{number}{'x' * 1000}") for number in range(FILE_BYTES_MAX // 1000))


async def test_bundles_are_found_by_name_and_by_signer(server: LocalServer, tenant: Caller) -> None:
    first, second = authority("first"), authority("second")
    spec = {"signerName": "example.com/mine"}
    for name, text, labels in (("a", first, {"live": "yes"}), ("b", first + second, {})):
        body = {
            "metadata": {"name": f"example.com:mine:{name}", "labels": labels},
            "spec": {**spec, "trustBundle": text},
        }
        assert tenant.post(BUNDLES, body).status == 201
    assert tenant.post(BUNDLES, {"metadata": {"name": "own"}, "spec": {"trustBundle": second}}).status == 201
    name = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    key, _ = make_pod(server, name, {})
    async with looking_up(server) as lookup:

        async def file(**source: object) -> str:
            part: Object = {"path": "ca.pem", **source}
            return (await projected(lookup, key, part, 0o644))["ca.pem"].content.decode()

        assert await file(name="own") == second
        assert await file(**spec, labelSelector={}) == first + second
        assert await file(**spec, labelSelector={"matchLabels": {"live": "yes"}}) == first
        assert await file(name="missing", optional=True) == ""
        assert await file(**spec, optional=True) == "", "no selector selects nothing"
        for missing in ({"name": "missing"}, {"signerName": "example.com/other", "labelSelector": {}}):
            with pytest.raises(VolumeFailure, match="not found"):
                await file(**missing)


def test_a_node_reads_bundles_only_of_tenants_with_pods_on_it(server: LocalServer, tenant: Caller) -> None:
    name = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    path = f"/apis/certificates.k8s.io/v1/tenants/{name}/clustertrustbundles"
    assert server.as_node("bundles").get(path).status == 403
