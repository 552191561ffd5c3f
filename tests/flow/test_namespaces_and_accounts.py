"""What every namespace has, how it goes, and the small controllers around identity."""

import base64
from itertools import count
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.client import kubeconfig
from alcove.testing.server import Caller, LocalServer, wait_until

_NUMBERS = count()
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


@pytest.fixture(scope="module")
def acme(control_plane: LocalServer) -> Caller:
    control_plane.system.post("/api/v1/tenants", {"metadata": {"name": "spaces"}})
    path = f"{RBAC}/tenants/spaces/clusterrolebindings/admin-role-binding"
    wait_until(lambda: control_plane.system.get(path).status == 200)
    return control_plane.as_tenant("spaces")


@pytest.fixture
def name() -> str:
    return f"s{next(_NUMBERS)}"


def make_namespace(caller: Caller, name: str) -> str:
    assert caller.post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    path = f"/api/v1/namespaces/{name}"
    wait_until(lambda: caller.get(f"{path}/serviceaccounts/default").status == 200)
    wait_until(lambda: caller.get(f"{path}/configmaps/kube-root-ca.crt").status == 200)
    return path


def conditions(caller: Caller, path: str) -> dict[str, dict[str, str]]:
    return {each["type"]: each for each in caller.get(path).json.get("status", {}).get("conditions", [])}


def test_account_and_certificate_come_back(control_plane: LocalServer, acme: Caller, name: str) -> None:
    path = make_namespace(acme, name)
    authority = kubeconfig.load(control_plane.admin_kubeconfig).ca_pem.decode()
    assert acme.get(f"{path}/configmaps/kube-root-ca.crt").json["data"] == {"ca.crt": authority}
    uid = acme.get(f"{path}/serviceaccounts/default").json["metadata"]["uid"]
    acme.delete(f"{path}/serviceaccounts/default")
    acme.delete(f"{path}/configmaps/kube-root-ca.crt")

    def is_back() -> bool:
        account = acme.get(f"{path}/serviceaccounts/default")
        return account.status == 200 and account.json["metadata"]["uid"] != uid

    wait_until(is_back)
    wait_until(lambda: acme.get(f"{path}/configmaps/kube-root-ca.crt").status == 200)
    acme.patch(f"{path}/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "forged"}})
    wait_until(lambda: acme.get(f"{path}/configmaps/kube-root-ca.crt").json["data"] == {"ca.crt": authority})


def test_a_quotas_status_is_true_again_after_a_client_wrote_it(acme: Caller, name: str) -> None:
    path = make_namespace(acme, name)
    quotas = f"{path}/resourcequotas"
    assert acme.post(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "500m"}}}).status == 201
    written = acme.patch(f"{quotas}/q/status", {"status": {"hard": {"cpu": "2"}}}).json
    assert written["status"]["hard"] == {"cpu": "2"}
    wait_until(lambda: acme.get(f"{quotas}/q").json["status"]["hard"] == {"cpu": "500m"})


def test_a_namespace_goes_with_everything_in_it(acme: Caller, name: str) -> None:
    path = make_namespace(acme, name)
    for number in range(30):
        assert acme.post(f"{path}/configmaps", {"metadata": {"name": f"c{number}"}}).status == 201
    acme.delete(path)
    wait_until(lambda: acme.get(path).status == 404)
    make_namespace(acme, name)
    assert len(acme.get(f"{path}/configmaps").json["items"]) == 1


def test_a_namespace_says_what_it_waits_for(acme: Caller, name: str) -> None:
    path = make_namespace(acme, name)
    held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    assert acme.post(f"{path}/configmaps", held).status == 201
    acme.delete(path)
    wait_until(lambda: conditions(acme, path)["NamespaceFinalizersRemaining"]["status"] == "True")
    condition = conditions(acme, path)["NamespaceFinalizersRemaining"]
    assert condition["reason"] == "SomeFinalizersRemain"
    assert "example.com/held in 1 resource instances" in condition["message"]

    def remaining() -> bool:
        condition = conditions(acme, path)["NamespaceContentRemaining"]
        return condition["message"] == "Some resources are remaining: configmaps. has 1 resource instances"

    wait_until(remaining)
    assert conditions(acme, path)["NamespaceDeletionDiscoveryFailure"]["status"] == "False"
    assert conditions(acme, path)["NamespaceDeletionContentFailure"]["status"] == "False"
    refused = acme.post(f"{path}/configmaps", {"metadata": {"name": "late"}})
    assert refused.status == 403
    acme.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": []}})
    wait_until(lambda: acme.get(path).status == 404)


def test_the_first_three_namespaces_stay(acme: Caller) -> None:
    for each in ("default", "kube-system", "kube-public"):
        refused = acme.delete(f"/api/v1/namespaces/{each}")
        assert refused.status == 403
        message = f'namespaces "spaces/{each}" is forbidden: this namespace may not be deleted'
        assert refused.json["message"] == message


def test_token_secrets_go_with_their_account(acme: Caller, name: str) -> None:
    path = make_namespace(acme, name)
    acme.post(f"{path}/serviceaccounts", {"metadata": {"name": "robot"}})
    secret = {
        "metadata": {"name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    }
    assert "token" in acme.post(f"{path}/secrets", secret).json["data"]
    acme.post(f"{path}/secrets", {"metadata": {"name": "plain"}})
    acme.delete(f"{path}/serviceaccounts/robot")
    wait_until(lambda: acme.get(f"{path}/secrets/robot-token").status == 404)
    assert acme.get(f"{path}/secrets/plain").status == 200


def test_a_token_secret_for_nobody_goes(acme: Caller, name: str) -> None:
    path = make_namespace(acme, name)
    secret = {
        "metadata": {"name": "lost", "annotations": {"kubernetes.io/service-account.name": "nobody"}},
        "type": "kubernetes.io/service-account-token",
    }
    assert acme.post(f"{path}/secrets", secret).status == 201
    wait_until(lambda: acme.get(f"{path}/secrets/lost").status == 404)


def test_aggregated_roles_show_what_they_gather(acme: Caller, name: str) -> None:
    def rule(resource: str) -> dict[str, Any]:
        return {"apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"]}

    def rules() -> list[Any]:
        return acme.get(f"{RBAC}/clusterroles/{name}").json.get("rules") or []

    selector = {"matchLabels": {f"example.com/{name}": "true"}}
    role = {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []}
    assert acme.post(f"{RBAC}/clusterroles", role).status == 201
    labels = {f"example.com/{name}": "true"}
    for number in (1, 2):
        part = {"metadata": {"name": f"{name}-{number}", "labels": labels}, "rules": [rule(f"r{number}")]}
        assert acme.post(f"{RBAC}/clusterroles", part).status == 201
    wait_until(lambda: rules() == [rule("r1"), rule("r2")])
    acme.delete(f"{RBAC}/clusterroles/{name}-1")
    wait_until(lambda: rules() == [rule("r2")])


def test_aggregated_roles_gather_built_in_ones_too(acme: Caller, name: str) -> None:
    selector = {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
    role = {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []}
    acme.post(f"{RBAC}/clusterroles", role)
    wait_until(lambda: len(acme.get(f"{RBAC}/clusterroles/{name}").json.get("rules") or []) > 3)


def node_request(name: str, signer: str) -> dict[str, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tenant:system"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
        ]
    )
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return {
        "metadata": {"name": name},
        "spec": {
            "signerName": signer,
            "usages": ["client auth", "digital signature"],
            "request": base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode(),
        },
    }


def test_a_nodes_certificate_is_approved_for_whoever_may_have_it(
    control_plane: LocalServer, name: str
) -> None:
    ring0 = control_plane.system
    request = node_request(name, "kubernetes.io/kube-apiserver-client-kubelet")
    assert ring0.post(CSRS, request).status == 201
    status = wait_until(
        lambda: (
            ring0.get(f"{CSRS}/{name}").json.get("status", {}).get("certificate")
            and ring0.get(f"{CSRS}/{name}").json["status"]
        )
    )
    assert [each["reason"] for each in status["conditions"]] == ["AutoApproved"]


def test_other_requests_wait_for_a_person(control_plane: LocalServer, acme: Caller, name: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tenant:spaces"),
            x509.NameAttribute(NameOID.COMMON_NAME, "eve"),
        ]
    )
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    request = {
        "metadata": {"name": name},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "request": base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode(),
        },
    }
    assert acme.post(CSRS, request).status == 201
    # A node's request after it was handled: so was this one.
    other = f"{name}-node"
    control_plane.system.post(CSRS, node_request(other, "kubernetes.io/kube-apiserver-client-kubelet"))
    wait_until(lambda: control_plane.system.get(f"{CSRS}/{other}").json.get("status", {}).get("certificate"))
    assert not acme.get(f"{CSRS}/{name}").json.get("status")


def test_a_namespace_that_is_not_empty_cannot_be_finalized_by_anybody(tenant_admin: Caller) -> None:
    path = "/api/v1/namespaces/full"
    assert tenant_admin.post("/api/v1/namespaces", {"metadata": {"name": "full"}}).status == 201
    held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    assert tenant_admin.post(f"{path}/configmaps", held).status == 201
    tenant_admin.delete(path)
    namespace = tenant_admin.get(path).json
    namespace["spec"]["finalizers"] = []
    namespace["metadata"].pop("resourceVersion")
    refused = tenant_admin.put(f"{path}/finalize", namespace)
    assert refused.status == 409 and "not empty, it still has configmaps" in refused.json["message"]
    tenant_admin.patch(f"{path}/configmaps/held", {"metadata": {"finalizers": []}})
    wait_until(lambda: tenant_admin.get(path).status == 404)


def test_an_invalid_finalizer_of_a_namespace_is_refused(tenant_admin: Caller, name: str) -> None:
    path = f"/api/v1/namespaces/{name}"
    assert tenant_admin.post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    namespace = tenant_admin.get(path).json
    namespace["spec"]["finalizers"].append("mine")
    refused = tenant_admin.put(f"{path}/finalize", namespace)
    assert refused.status == 422 and "neither a standard finalizer name" in refused.json["message"]
    namespace["spec"]["finalizers"][-1] = "example.com/mine"
    assert tenant_admin.put(f"{path}/finalize", namespace).status == 200
    assert tenant_admin.get(path).json["spec"]["finalizers"] == ["kubernetes", "example.com/mine"]


def test_nothing_stays_of_a_namespace_deleted_as_soon_as_it_was_made(tenant_admin: Caller) -> None:
    names = [f"brief{number}" for number in range(30)]
    for name in names:
        assert tenant_admin.post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
        assert tenant_admin.delete(f"/api/v1/namespaces/{name}").status == 200
    wait_until(lambda: all(tenant_admin.get(f"/api/v1/namespaces/{name}").status == 404 for name in names))
    for resource in ("serviceaccounts", "configmaps", "events"):
        items = tenant_admin.get(f"/api/v1/{resource}").json["items"]
        assert not {each["metadata"]["namespace"] for each in items} & set(names)
