"""Certificates of pods, requested with a node's rights from a real API server, and answered by a signer."""

import datetime
from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.tenant_threads import TenantThreads
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.pod_certificates import PodCertificates
from alcove.api import meta
from alcove.api.kinds.certificates.pem import decoded
from alcove.api.objects import Object
from alcove.testing.lookups import looking_up, make_pod
from alcove.testing.server import LocalServer

_NUMBERS = count(1)
NODE = "certified"
SIGNER = "example.com/signer"
SOURCE: Object = {"signerName": SIGNER, "keyType": "ECDSAP256", "credentialBundlePath": "bundle.pem"}


class World:
    def __init__(self, server: LocalServer, lookup: ObjectLookup, tenant: str) -> None:
        self.server, self.lookup, self.tenant = server, lookup, tenant
        self.path = f"/apis/certificates.k8s.io/v1/tenants/{tenant}/namespaces/default/podcertificaterequests"
        self.now = 0.0
        self.certificates = PodCertificates(lookup, lambda: self.now, NODE, TenantThreads(), (0.0,))

    def pod(self, source: Object) -> tuple[PodKey, Object]:
        volume = {"name": "tls", "projected": {"sources": [{"podCertificate": source}]}}
        return make_pod(self.server, self.tenant, {"volumes": [volume], "nodeName": NODE})

    def requests(self) -> list[Object]:
        found: list[Object] = self.server.system.get(self.path).json["items"]
        return found

    def answer(self, request: Object, status: Object) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"status": "True", "reason": "Tested", "message": "by a test", "lastTransitionTime": now}
        body = {**request, "status": status | {"conditions": [{**condition, **status["conditions"][0]}]}}
        answer = self.server.system.put(f"{self.path}/{request['metadata']['name']}/status", body)
        assert answer.status == 200, answer.body

    def sign(self, request: Object) -> None:
        begin = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        end = begin + datetime.timedelta(seconds=request["spec"]["maxExpirationSeconds"])
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signer")])
        csr = x509.load_der_x509_csr(decoded(request["spec"]["stubPKCS10Request"]))
        builder = x509.CertificateBuilder(name, name, csr.public_key(), 7, begin, end)
        leaf = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        self.answer(
            request,
            {
                "conditions": [{"type": "Issued"}],
                "certificateChain": leaf.public_bytes(serialization.Encoding.PEM).decode(),
                "notBefore": meta.format_time(begin.timestamp()),
                "notAfter": meta.format_time(end.timestamp()),
                "beginRefreshAt": meta.format_time(begin.timestamp() + 1800),
            },
        )


@pytest_asyncio.fixture
async def world(server: LocalServer) -> AsyncIterator[World]:
    tenant = f"certified-{next(_NUMBERS)}"
    server.make_tenant(tenant)
    assert server.system.post("/api/v1/nodes", {"metadata": {"name": NODE}}).status in (201, 409)
    async with looking_up(server, node=NODE) as lookup:
        yield World(server, lookup, tenant)


async def test_a_pod_waits_for_its_signer_and_gets_the_certificate_of_its_key(world: World) -> None:
    source = {**SOURCE, "userAnnotations": {"example.com/path": "/x"}, "maxExpirationSeconds": 7200}
    key, pod = world.pod(source)
    for _ in range(2):
        with pytest.raises(VolumeFailure, match=f'waits for signer "{SIGNER}"'):
            await world.certificates.current(key, pod, "tls/0", source, None)
    [request] = world.requests()
    spec = request["spec"]
    assert (spec["podUID"], spec["nodeName"], spec["maxExpirationSeconds"]) == (key.uid, NODE, 7200)
    assert spec["unverifiedUserAnnotations"] == {"example.com/path": "/x"}
    assert request["metadata"]["ownerReferences"][0]["uid"] == key.uid
    world.sign(request)
    issued = await world.certificates.current(key, pod, "tls/0", source, None)
    bundle = issued.projected(source, 0o600, 0)["bundle.pem"].content
    private = serialization.load_pem_private_key(bundle, None)
    assert x509.load_pem_x509_certificate(bundle).public_key() == private.public_key()


async def test_a_certificate_is_renewed_in_time_and_kept_until_then(world: World) -> None:
    key, pod = world.pod(SOURCE)
    with pytest.raises(VolumeFailure):
        await world.certificates.current(key, pod, "tls/0", SOURCE, None)
    [request] = world.requests()
    world.sign(request)
    world.now = meta.parse_time(request["metadata"]["creationTimestamp"])
    first = await world.certificates.current(key, pod, "tls/0", SOURCE, None)
    assert await world.certificates.current(key, pod, "tls/0", SOURCE, first) is first
    world.now = first.renew_at + 1
    assert await world.certificates.current(key, pod, "tls/0", SOURCE, first) is first
    [renewal] = [each for each in world.requests() if each["metadata"]["name"] != request["metadata"]["name"]]
    world.sign(renewal)
    second = await world.certificates.current(key, pod, "tls/0", SOURCE, first)
    assert second.chain != first.chain and second.key != first.key


async def test_a_refused_or_deleted_request_is_said(world: World) -> None:
    key, pod = world.pod(SOURCE)
    with pytest.raises(VolumeFailure):
        await world.certificates.current(key, pod, "tls/0", SOURCE, None)
    [request] = world.requests()
    world.answer(request, {"conditions": [{"type": "Denied"}]})
    with pytest.raises(VolumeFailure, match="denied by the signer: Tested: by a test"):
        await world.certificates.current(key, pod, "tls/0", SOURCE, None)
    assert world.server.system.delete(f"{world.path}/{request['metadata']['name']}").status == 200
    with pytest.raises(VolumeFailure, match="was deleted before the signer answered it"):
        await world.certificates.current(key, pod, "tls/0", SOURCE, None)
    with pytest.raises(VolumeFailure, match="waits for signer"):
        await world.certificates.current(key, pod, "tls/0", SOURCE, None)


@pytest.mark.parametrize("key_type", ["RSA3072", "ECDSAP384", "ECDSAP521", "ED25519"])
async def test_all_types_of_keys_are_requested(world: World, key_type: str) -> None:
    source = {
        **SOURCE,
        "keyType": key_type,
        "credentialBundlePath": "",
        "keyPath": "key",
        "certificateChainPath": "chain",
    }
    key, pod = world.pod(source)
    with pytest.raises(VolumeFailure, match="waits for signer"):
        await world.certificates.current(key, pod, "tls/0", source, None)
    world.sign(world.requests()[0])
    issued = await world.certificates.current(key, pod, "tls/0", source, None)
    assert set(issued.projected(source, 0o644, 0)) == {"key", "chain"}
