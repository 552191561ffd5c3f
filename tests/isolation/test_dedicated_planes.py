"""A dedicated plane and the home plane: neither's credentials are more than they should be on the other."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.pods.executor import PodSetupError
from alcove.agent.pods.reservations import NodeReservations
from alcove.agent.server.callers import AuthorizedCallers
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.cli import credentials
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.client.client import Client
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import load
from alcove.client.pool import HttpPool
from alcove.testing.dedicated import DedicatedServer
from alcove.testing.hostile_plane import HostilePlane, Hostility
from alcove.testing.server import Caller, LocalServer

PODS = "/api/v1/namespaces/default/pods"
HOSTILE_SPECS: dict[str, dict[str, Any]] = {
    "hostPath": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "privileged": {},
}


class TwoPlanes:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = LocalServer(directory / "home")
        self.home.start()
        self.home_authority = CertificateAuthority.open(directory / "home" / "pki", time.time())
        self.plane = DedicatedServer(directory / "plane", self.home, "big")
        self.plane_authority = self.plane.authority
        self.plane.start()

    def caller(
        self, authority: CertificateAuthority, server: LocalServer, tenant: str, user: str, *groups: str
    ) -> Caller:
        """Somebody with a certificate of one plane's authority who calls the other's server, or the same."""
        issued = authority.client(Subject(TenantId(tenant), user, groups), time.time())
        credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
        admin = load(server.admin_kubeconfig)
        path = self.directory / f"{len(list(self.directory.iterdir()))}.kubeconfig"
        path.write_text(render(admin.server, admin.ca_pem, tenant, user, credential))
        return Caller(path)


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoPlanes]:
    made = TwoPlanes(tmp_path_factory.mktemp("planes"))
    yield made
    made.plane.stop()
    made.home.stop()


@pytest.fixture(scope="module")
def big(planes: TwoPlanes) -> Caller:
    """The tenant's administrator on its own plane."""
    return planes.plane.admin()


def test_ring0_is_ring0_on_every_plane(planes: TwoPlanes) -> None:
    admin = planes.caller(planes.home_authority, planes.plane, "system", "admin", "system:masters")
    assert admin.get("/api/v1/nodes").status == 200
    node = planes.caller(planes.home_authority, planes.plane, "system", "system:node:n1", "system:nodes")
    assert node.get("/api/v1/nodes/n1").status == 404
    assert node.get("/api/v1/namespaces/kube-system/secrets").status == 403


def test_ring0s_authority_is_not_for_tenants_there(planes: TwoPlanes, big: Caller) -> None:
    """Neither a shared tenant's users, nor somebody who has the tenant's name at home."""
    for tenant in ("acme", "big"):
        stranger = planes.caller(planes.home_authority, planes.plane, tenant, "admin", "system:masters")
        answer = stranger.get("/api/v1/namespaces")
        assert answer.status == 401 and "of ring0's authority" in answer.json["message"]
    assert big.get("/api/v1/namespaces").status == 200


def test_a_planes_authority_makes_nobody_ring0_at_home(planes: TwoPlanes) -> None:
    impostor = planes.caller(planes.plane_authority, planes.home, "system", "admin", "system:masters")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        impostor.get("/api/v1/tenants")


def test_at_home_a_planes_authority_vouches_for_its_tenant_alone(planes: TwoPlanes, big: Caller) -> None:
    """Once ring0 says that the tenant has this plane, its users' requests are forwarded to it."""
    assert big.get("/api/v1/namespaces").status == 200
    home = planes.home.system
    tenant = {"metadata": {"name": "big"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
    assert home.post("/api/v1/tenants", tenant).status == 201
    authority = planes.plane_authority.certificate_pem.decode()
    status = {"endpoint": planes.plane.url, "controlPlane": {"certificateAuthority": authority}}
    assert home.patch("/api/v1/tenants/big/status", {"status": status}).status == 200
    planes.home.make_tenant("acme")
    admin = planes.caller(planes.plane_authority, planes.home, "big", "admin")
    assert [each["metadata"]["name"] for each in admin.get("/api/v1/namespaces").json["items"]] == [
        "default",
        "kube-public",
        "kube-system",
    ]
    for path in ("/api/v1/tenants", "/api/v1/tenants/acme/namespaces", "/api/v1/tenants/system/namespaces"):
        assert admin.get(path).status == 403, path
    assert admin.get("/api/v1/namespaces", Impersonate_User="x", Impersonate_Tenant="system").status == 403
    for name in ("system", "acme"):
        impostor = planes.caller(planes.plane_authority, planes.home, name, "admin", "system:masters")
        answer = impostor.get(f"/api/v1/tenants/{name}/namespaces")
        assert answer.status == 401 and "may not vouch" in answer.json["message"]
    assert planes.home.as_tenant("acme").get("/api/v1/namespaces").status == 200


def test_a_planes_administrator_is_not_ring0_on_it(planes: TwoPlanes, big: Caller) -> None:
    for path in ("/api/v1/tenants", "/api/v1/tenants/system/namespaces", "/tenants/system/api/v1/nodes"):
        assert big.get(path).status in (403, 404), path
    headers = {"Impersonate_User": "admin", "Impersonate_Group": "system:masters"}
    assert big.get("/api/v1/tenants/system/namespaces", **headers).status == 403
    assert big.get("/api/v1/namespaces", **headers, Impersonate_Tenant="system").status == 403
    node = {"metadata": {"name": "n2"}, "spec": {}}
    assert big.post("/api/v1/nodes", node).status in (403, 404, 405)


def test_its_signer_signs_for_its_tenant_alone(planes: TwoPlanes, big: Caller) -> None:

    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    key = ec.generate_private_key(ec.SECP256R1())
    request = credentials._request(key, SYSTEM, "admin", ("system:masters",))
    created = big.post(path, request)
    if created.status == 201:
        asked = created.json
        asked["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}
        signed = big.put(f"{path}/{asked['metadata']['name']}/approval", asked)
        certificate = base64.b64decode((signed.json.get("status") or {}).get("certificate") or "")
        assert not certificate, signed.body


@pytest.mark.parametrize("name", HOSTILE_SPECS)
def test_its_pods_get_nothing_of_nodes(big: Caller, name: str) -> None:
    container: dict[str, object] = {"name": "c", "image": "i"}
    if name == "privileged":
        container["securityContext"] = {"privileged": True}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], **HOSTILE_SPECS[name]}}
    answer = big.post(PODS, pod)
    assert answer.status == 403, answer.body


def test_a_forged_tenant_is_overruled(big: Caller) -> None:
    body = {"metadata": {"name": "forged", "tenant": "system"}, "data": {}}
    answer = big.post("/api/v1/namespaces/default/configmaps", body)
    assert answer.status in (400, 403) or answer.json["metadata"]["tenant"] == "big"


@pytest.mark.parametrize(
    "source", [{"hostPath": {"path": "/etc"}}, {"local": {"path": "/alcove/pvc-0"}}], ids=str
)
def test_its_volumes_are_no_files_of_nodes(big: Caller, source: dict[str, Any]) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        **source,
    }
    answer = big.post("/api/v1/persistentvolumes", {"metadata": {"name": "mine"}, "spec": spec})
    assert answer.status == 403, answer.body


async def test_a_pod_that_names_its_node_is_not_started_there(planes: TwoPlanes, big: Caller) -> None:
    """Its own API server lets it pass, and a hostile one would; the node asks ring0."""
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    pod = big.post(PODS, {"metadata": {"name": "placed"}, "spec": spec}).json
    pool = HttpPool(load(planes.home.as_node("n1").kubeconfig))
    try:
        reservations = NodeReservations(Client(pool), "n1", PlaneId)
        admission = NodeAdmission({"cpu": "8", "pods": "10"}, None, reservations)
        key = PodKey(PlaneId("big"), TenantId("big"), "default", "placed", pod["metadata"]["uid"])
        with pytest.raises(PodSetupError, match="reserved nothing"):
            await admission.admit(key, pod)
    finally:
        await pool.close()


def test_its_service_accounts_are_nobody_elsewhere(planes: TwoPlanes, big: Caller) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = str(big.post(accounts, {"spec": {}}).json["status"]["token"])
    there = planes.plane.anonymous(token)
    assert there.get("/api/v1/namespaces").status == 403  # Known, without rights.
    for path in ("/api/v1/namespaces", "/api/v1/tenants/big/namespaces", "/api/v1/tenants"):
        assert planes.home.anonymous(token).get(path).status == 401, path


def test_networks_of_others_are_not_there(planes: TwoPlanes, big: Caller) -> None:
    root = "/apis/arktos.futurewei.com/v1"
    network = {"metadata": {"name": "theirs", "tenant": "acme"}, "spec": {"type": "vpc"}}
    assert big.post(f"{root}/networks", network).status in (400, 403, 422)
    for tenant in ("acme", "system"):
        assert big.get(f"{root}/tenants/{tenant}/networks").status == 403
        assert big.post(f"{root}/tenants/{tenant}/networks", network).status == 403
    for resource in ("vpcs", "subnets", "endpoints", "droplets"):
        assert big.get(f"/apis/mizar.com/v1/{resource}").status in (403, 404)


def test_agents_take_its_server_for_a_server_of_its_own_plane_alone(
    planes: TwoPlanes, tmp_path: Path
) -> None:
    """Its authority can issue any name; the node knows which plane the authority is of."""
    serving = planes.home_authority.for_nodes(time.time()).serving(["127.0.0.1"], time.time())
    pair = tmp_path / "node.pem"
    pair.write_bytes(serving.certificate_pem + serving.key_pem)
    callers = AuthorizedCallers(pair)
    authorities = {HOME: planes.home_authority, PlaneId("big"): planes.plane_authority}
    for plane, authority in authorities.items():
        callers.trust(plane, authority.certificate_pem)
    server = Subject(SYSTEM, API_SERVER_USER, (API_SERVER_GROUP,))
    for plane, authority in authorities.items():
        issued = authority.client(server, time.time())
        assert callers.plane_of(der(issued.certificate_pem)) == plane
    for subject in (Subject(TenantId("big"), "admin", ()), Subject(SYSTEM, "admin", ("system:masters",))):
        issued = planes.plane_authority.client(subject, time.time())
        with pytest.raises(Forbidden):
            callers.plane_of(der(issued.certificate_pem))


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def test_a_redirect_of_a_plane_is_not_passed_on(planes: TwoPlanes, tmp_path: Path) -> None:
    """Whoever follows it would repeat the request with its rights at home."""
    host, port = planes.home.address
    with HostilePlane(tmp_path, "lying", f"https://{host}:{port}") as lying:
        lying.be(Hostility.REDIRECTING)
        tenant = {"metadata": {"name": "lying"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
        assert planes.home.system.post("/api/v1/tenants", tenant).status == 201
        user = load(lying.kubeconfig)
        status = {"endpoint": user.server, "controlPlane": {"certificateAuthority": user.ca_pem.decode()}}
        assert planes.home.system.patch("/api/v1/tenants/lying/status", {"status": status}).status == 200
        for method in ("GET", "DELETE", "POST"):
            answer = planes.home.system.request(method, "/tenants/lying/api/v1/namespaces/default/pods", {})
            assert answer.status == 503 and "redirect" in answer.json["message"], answer.body
            assert "location" not in answer.headers
