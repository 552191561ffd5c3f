"""Kinds that are served for the tenant's own programs, and what is told of those that nobody acts on."""

import base64
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer, wait_until

CERTIFICATES = "/apis/certificates.k8s.io/v1"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
_NUMBERS = count()


@pytest.fixture(scope="module")
def acme(control_plane: LocalServer) -> Caller:
    control_plane.system.post("/api/v1/tenants", {"metadata": {"name": "kinds"}})
    path = "/apis/rbac.authorization.k8s.io/v1/tenants/kinds/clusterrolebindings/admin-role-binding"
    wait_until(lambda: control_plane.system.get(path).status == 200)
    wait_until(lambda: control_plane.system.get("/api/v1/tenants/kinds/namespaces/default").status == 200)
    return control_plane.as_tenant("kinds")


@pytest.fixture
def name() -> str:
    return f"k{next(_NUMBERS)}"


def certificate(begin: datetime, *, ca: bool = False) -> str:
    made = x509.CertificateBuilder(NAME, NAME, KEY.public_key(), 1, begin, begin + timedelta(hours=12))
    made = made.add_extension(x509.BasicConstraints(ca, None), critical=True)
    return made.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def conditions(caller: Caller, path: str) -> dict[str, str]:
    found = caller.get(path).json.get("status", {}).get("conditions", [])
    return {each["type"]: each["status"] for each in found}


def test_a_trust_bundle_is_attested_by_who_may(acme: Caller) -> None:
    text = certificate(datetime.now(UTC), ca=True)
    body = {
        "metadata": {"name": "example.com:mine:v1"},
        "spec": {"signerName": "example.com/mine", "trustBundle": text},
    }
    path = f"{CERTIFICATES}/clustertrustbundles"
    role: Object = {
        "metadata": {"name": "bundles"},
        "rules": [
            {"verbs": ["create"], "apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"]}
        ],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    acme.post(f"{rbac}/clusterroles", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundles"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
    acme.post(
        f"{rbac}/clusterrolebindings",
        {"metadata": {"name": "bundles"}, "roleRef": reference, "subjects": [subject]},
    )
    refused = acme.post(path, body, impersonate_user="ann")
    assert refused.status == 403 and "attest" in refused.json["message"]
    assert acme.post(path, body).status == 201
    selected = acme.get(f"{path}?fieldSelector=spec.signerName%3Dexample.com/mine").json["items"]
    assert [each["metadata"]["name"] for each in selected] == ["example.com:mine:v1"]


def test_a_pods_certificate_is_signed_by_the_tenants_own_signer(acme: Caller, name: str) -> None:
    stub = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(KEY, hashes.SHA256())
    spec = {
        "signerName": "example.com/mine",
        "podName": "p",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": "n",
        "nodeUID": "3",
        "maxExpirationSeconds": 86_400,
        "stubPKCS10Request": base64.b64encode(stub.public_bytes(serialization.Encoding.DER)).decode(),
    }
    path = f"{CERTIFICATES}/namespaces/default/podcertificaterequests"
    made = acme.post(path, {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made.body
    begin = datetime.now(UTC).replace(microsecond=0)
    shown = [(begin + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ") for hours in (0, 12, 6)]
    condition = {"type": "Issued", "status": "True", "reason": "Signed", "lastTransitionTime": shown[0]}
    status = {
        "conditions": [condition],
        "certificateChain": certificate(begin),
        **dict(zip(("notBefore", "notAfter", "beginRefreshAt"), shown, strict=True)),
    }
    assert acme.patch(f"{path}/{name}/status", {"status": status}).status == 200
    again = acme.patch(f"{path}/{name}/status", {"status": {"certificateChain": ""}})
    assert again.status == 422 and "immutable after" in again.json["message"]


def test_a_taint_rule_is_kept_and_warned_of(acme: Caller, name: str) -> None:
    path = "/apis/resource.k8s.io/v1/devicetaintrules"
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    made = acme.post(path, {"metadata": {"name": name}, "spec": {"taint": taint}})
    assert made.status == 201 and "no devices are allocated" in made.headers["warning"]
    assert made.json["spec"]["taint"]["timeAdded"]
    assert made.json["metadata"]["generation"] == 1
    condition = {"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    status = acme.patch(f"{path}/{name}/status", {"status": {"conditions": [condition]}})
    assert status.json["status"]["conditions"][0]["type"] == "A"


def test_a_csi_nodes_status_is_a_subresource(acme: Caller, name: str) -> None:
    path = "/apis/storage.k8s.io/v1/csinodes"
    assert acme.post(path, {"metadata": {"name": name}, "spec": {"drivers": []}}).status == 201
    assert acme.get(f"{path}/{name}/status").json["kind"] == "CSINode"
    assert acme.patch(f"{path}/{name}/status", {"status": {}}).status == 200


def versioned(name: str, *versions: str, storage: str) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{name}s.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": f"{name}s", "kind": name.capitalize()},
            "scope": "Namespaced",
            "versions": [
                {"name": each, "served": True, "storage": each == storage, "schema": schema}
                for each in versions
            ],
        },
    }


def test_a_migration_stores_objects_at_the_current_version(acme: Caller, name: str) -> None:
    crd = versioned(name, "v1", storage="v1")
    assert acme.post(CRDS, crd).status == 201
    objects = f"/apis/example.com/v1/namespaces/default/{name}s"
    wait_until(lambda: acme.get(objects).status == 200)
    kind = {"apiVersion": "example.com/v1", "kind": name.capitalize()}
    for number in range(105):  # More than one page.
        assert acme.post(objects, {**kind, "metadata": {"name": f"o{number}"}}).status == 201
    before = [each["metadata"]["resourceVersion"] for each in acme.get(objects).json["items"]]
    spec = versioned(name, "v1", "v2", storage="v2")["spec"]
    assert acme.patch(f"{CRDS}/{name}s.example.com", {"spec": spec}).status == 200
    newer = objects.replace("/v1/", "/v2/")
    wait_until(lambda: acme.get(newer).status == 200)
    wanted = {"resource": {"group": "example.com", "resource": f"{name}s"}}
    assert acme.post(MIGRATIONS, {"metadata": {"name": name}, "spec": wanted}).status == 201
    wait_until(lambda: conditions(acme, f"{MIGRATIONS}/{name}").get("Succeeded") == "True")
    found = acme.get(f"{MIGRATIONS}/{name}").json["status"]
    assert int(found["resourceVersion"]) > 0
    after = [each["metadata"]["resourceVersion"] for each in acme.get(objects).json["items"]]
    assert all(int(new) > int(old) for new, old in zip(after, before, strict=True))


def test_a_migration_of_nothing_that_is_served_fails(acme: Caller, name: str) -> None:
    wanted = {"resource": {"group": "example.com", "resource": "nothings"}}
    assert acme.post(MIGRATIONS, {"metadata": {"name": name}, "spec": wanted}).status == 201
    wait_until(lambda: conditions(acme, f"{MIGRATIONS}/{name}").get("Failed") == "True")
