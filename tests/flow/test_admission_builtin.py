"""The plugins that are always there, through a real server: lives, accounts, priorities, classes, limits."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from alcove.testing.server import Caller, LocalServer, ServerResponse

NAMESPACES = "/api/v1/namespaces"
DEFAULT = f"{NAMESPACES}/default"
PODS = f"{DEFAULT}/pods"
MAPS = f"{DEFAULT}/configmaps"
ACCOUNTS = f"{DEFAULT}/serviceaccounts"
CLAIMS = f"{DEFAULT}/persistentvolumeclaims"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
DEFAULT_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for taint in ("not-ready", "unreachable")
]
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec}}


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def must(answer: ServerResponse, status: int = 201) -> Any:
    assert answer.status == status, answer.body
    return answer.json


def tenant_of(caller: Caller) -> str:
    return str(caller.get(DEFAULT).json["metadata"]["tenant"])


def refused(answer: ServerResponse) -> str:
    assert answer.status == 403, answer.body
    return str(answer.json["message"])


# Tenants and namespaces


def test_the_system_tenant_stays(server: LocalServer) -> None:
    answer = server.system.delete("/api/v1/tenants/system")
    assert refused(answer) == 'tenants "system" is forbidden: this tenant may not be deleted'
    answer = server.system.post("/api/v1/tenants", named("system"))
    assert (answer.status, answer.json["message"]) == (409, 'tenants "system" already exists')


def test_nothing_is_made_in_a_missing_tenant(server: LocalServer) -> None:
    answer = server.system.post("/api/v1/tenants/nobody/namespaces", named("a"))
    assert (answer.status, answer.json["message"]) == (404, 'tenants "nobody" not found')


def test_nothing_is_made_in_a_tenant_on_its_way_out(server: LocalServer, tenant: Caller) -> None:
    name = tenant_of(tenant)
    must(tenant.post(MAPS, named("before")))
    assert server.system.delete(f"/api/v1/tenants/{name}").status in (200, 202)
    answer = tenant.post(MAPS, named("after"))
    message = f"unable to create new content in tenant {name} because it is being terminated"
    assert refused(answer) == f'configmaps "after" is forbidden: {message}'
    assert answer.json["details"]["causes"] == [
        {
            "reason": "TenantTerminating",
            "message": f"tenant {name} is being terminated",
            "field": "metadata.tenant",
        }
    ]
    assert tenant.post(NAMESPACES, named("more")).status == 403
    must(tenant.patch(f"{MAPS}/before", {"data": {"a": "1"}}), 200)
    must(tenant.delete(f"{MAPS}/before"), 200)


@pytest.mark.parametrize("namespace", ["default", "kube-system", "kube-public"])
def test_the_first_namespaces_stay_as_long_as_their_tenant(
    server: LocalServer, tenant: Caller, namespace: str
) -> None:
    name = tenant_of(tenant)
    message = f'namespaces "{name}/{namespace}" is forbidden: this namespace may not be deleted'
    assert refused(tenant.delete(f"{NAMESPACES}/{namespace}")) == message
    path = f"/api/v1/tenants/{name}/namespaces/{namespace}"
    assert refused(server.system.delete(path)) == message
    server.system.delete(f"/api/v1/tenants/{name}")
    assert server.system.delete(path).status in (200, 202)


def test_nothing_is_made_in_a_missing_or_ending_namespace(tenant: Caller) -> None:
    answer = tenant.post(f"{NAMESPACES}/nowhere/configmaps", named("m"))
    assert (answer.status, answer.json["message"]) == (404, 'namespaces "nowhere" not found')
    must(tenant.post(NAMESPACES, named("ending")))
    assert tenant.delete(f"{NAMESPACES}/ending").status in (200, 202)
    answer = tenant.post(f"{NAMESPACES}/ending/configmaps", named("m"))
    message = "unable to create new content in namespace ending because it is being terminated"
    assert refused(answer) == f'configmaps "m" is forbidden: {message}'
    assert answer.json["details"]["causes"][0] == {
        "reason": "NamespaceTerminating",
        "message": "namespace ending is being terminated",
        "field": "metadata.namespace",
    }


# Service accounts


def test_a_pod_gets_the_default_account_and_its_token(tenant: Caller) -> None:
    made = must(tenant.post(PODS, pod(initContainers=[{"name": "i", "image": "nginx"}])))
    spec = made["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    volume = spec["volumes"][0]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": TOKENS}]


def test_who_decides_about_the_token(tenant: Caller) -> None:
    must(tenant.post(ACCOUNTS, named("quiet", automountServiceAccountToken=False)))
    assert "volumes" not in must(tenant.post(PODS, pod("a", serviceAccountName="quiet")))["spec"]
    loud = pod("b", serviceAccountName="quiet", automountServiceAccountToken=True)
    assert len(must(tenant.post(PODS, loud))["spec"]["volumes"]) == 1
    own = pod("c", volumes=[{"name": "mine", "emptyDir": {}}])
    own["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": TOKENS}]
    assert [each["name"] for each in must(tenant.post(PODS, own))["spec"]["volumes"]] == ["mine"]


def test_pull_secrets_come_from_the_account(tenant: Caller) -> None:
    must(tenant.post(ACCOUNTS, named("puller", imagePullSecrets=[{"name": "registry"}])))
    made = must(tenant.post(PODS, pod("a", serviceAccountName="puller")))
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    given = pod("b", serviceAccountName="puller", imagePullSecrets=[{"name": "own"}])
    assert must(tenant.post(PODS, given))["spec"]["imagePullSecrets"] == [{"name": "own"}]


def test_an_unknown_account_is_refused_at_once(tenant: Caller) -> None:
    assert refused(tenant.post(PODS, pod(serviceAccountName="ghost"))) == (
        'pods "p" is forbidden: error looking up service account default/ghost: serviceaccount "ghost" not found'
    )


def test_an_account_may_limit_its_pods_to_its_secrets(tenant: Caller) -> None:
    strict = {
        "metadata": {"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "mine"}],
    }
    must(tenant.post(ACCOUNTS, strict))

    def mounting(secret: str) -> dict[str, Any]:
        volumes = [{"name": "v", "secret": {"secretName": secret}}]
        return pod(serviceAccountName="strict", volumes=volumes)

    assert refused(tenant.post(PODS, mounting("other"))) == (
        'pods "p" is forbidden: volume with secret.secretName="other" is not allowed because service account '
        "strict does not reference that secret"
    )
    by_environment = pod(serviceAccountName="strict")
    by_environment["spec"]["containers"][0]["env"] = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}
    ]
    assert "container c with envVar A referencing" in refused(tenant.post(PODS, by_environment))
    pulled = pod(serviceAccountName="strict", imagePullSecrets=[{"name": "other"}])
    assert 'imagePullSecrets[0].name="other" is not allowed' in refused(tenant.post(PODS, pulled))
    must(tenant.post(PODS, mounting("mine")))
    debug = {
        "name": "d",
        "image": "busybox",
        "envFrom": [{"secretRef": {"name": "other"}}],
    }
    answer = tenant.patch(
        f"{PODS}/p/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [debug]}},
        "strategic-merge-patch+json",
    )
    assert "ephemeral container d with envFrom referencing" in refused(answer)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
            "a mirror pod may not reference secrets",
        ),
        ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
    ],
)
def test_a_mirror_pod_has_no_account_and_no_secrets(
    server: LocalServer, spec: dict[str, Any], message: str
) -> None:
    mirror = pod("mirror", nodeName="n", **spec)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert refused(server.system.post(PODS, mirror)).endswith(message)


# Priorities


def test_priority_comes_from_the_class(tenant: Caller) -> None:
    plain = must(tenant.post(PODS, pod("plain")))["spec"]
    assert (plain["priority"], plain["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    must(tenant.post(PRIORITIES, named("high", value=1000, preemptionPolicy="Never")))
    high = must(tenant.post(PODS, pod("high", priorityClassName="high")))["spec"]
    assert (high["priority"], high["preemptionPolicy"]) == (1000, "Never")
    must(tenant.post(PRIORITIES, named("usual", value=10, globalDefault=True)))
    usual = must(tenant.post(PODS, pod("usual")))["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (10, "usual")


def test_a_pod_cannot_say_its_own_priority(tenant: Caller) -> None:
    message = refused(tenant.post(PODS, pod(priority=9)))
    assert message == (
        'pods "p" is forbidden: the integer value of priority (9) must not be provided in pod spec; priority '
        "admission controller computed 0 from the given PriorityClass name"
    )
    message = refused(tenant.post(PODS, pod(preemptionPolicy="Never")))
    assert "the string value of PreemptionPolicy (Never) must not be provided in pod spec" in message
    message = refused(tenant.post(PODS, pod(priorityClassName="ghost")))
    assert message == 'pods "p" is forbidden: no PriorityClass with name ghost was found'
    must(tenant.post(PODS, pod(priority=0)))


def test_only_one_class_is_the_default(tenant: Caller) -> None:
    must(tenant.post(PRIORITIES, named("first", value=1, globalDefault=True)))
    message = refused(tenant.post(PRIORITIES, named("second", value=2, globalDefault=True)))
    assert message.endswith("PriorityClass first is already marked as default. Only one default can exist")


def test_the_systems_classes_are_ring0s(server: LocalServer, tenant: Caller) -> None:
    critical = pod("critical", priorityClassName="system-node-critical")
    assert "no PriorityClass with name system-node-critical was found" in refused(tenant.post(PODS, critical))
    own = named("system-node-critical", value=2_000_001_000)
    assert "are reserved for system use only" in refused(tenant.post(PRIORITIES, own))
    made = must(server.system.post(PODS, critical))
    assert made["spec"]["priority"] == 2_000_001_000
    server.system.delete(f"{PODS}/critical?gracePeriodSeconds=0")


def test_an_update_without_the_priority_keeps_it(tenant: Caller) -> None:
    made = must(tenant.post(PODS, pod()))
    for field in ("priority", "preemptionPolicy"):
        del made["spec"][field]
    made["metadata"]["labels"] = {"a": "b"}
    changed = must(tenant.put(f"{PODS}/p", made), 200)
    assert (changed["spec"]["priority"], changed["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")


# Storage and runtime classes


def test_a_claim_gets_the_default_class(tenant: Caller) -> None:
    def claim(name: str, **spec: Any) -> dict[str, Any]:
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        return named(name, spec=wanted)

    def storage_class(name: str, is_default: str) -> dict[str, Any]:
        annotations = {"storageclass.kubernetes.io/is-default-class": is_default}
        return {"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/p"}

    assert "storageClassName" not in must(tenant.post(CLAIMS, claim("none")))["spec"]
    must(tenant.post(STORAGE_CLASSES, storage_class("slow", "false")))
    for name in ("b", "a"):
        must(tenant.post(STORAGE_CLASSES, storage_class(name, "true")))
    made = [must(tenant.get(f"{STORAGE_CLASSES}/{name}"), 200)["metadata"] for name in ("a", "b")]
    newest = max(each["creationTimestamp"] for each in made)
    expected = min(each["name"] for each in made if each["creationTimestamp"] == newest)
    assert must(tenant.post(CLAIMS, claim("usual")))["spec"]["storageClassName"] == expected
    assert must(tenant.post(CLAIMS, claim("bare", storageClassName="")))["spec"]["storageClassName"] == ""
    assert must(tenant.post(CLAIMS, claim("own", storageClassName="x")))["spec"]["storageClassName"] == "x"


def test_a_claim_grows_only_where_its_class_lets_it(tenant: Caller) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name, grows in (("elastic", True), ("stiff", False)):
        body = named(name, provisioner="example.com/p", allowVolumeExpansion=grows)
        must(tenant.post(STORAGE_CLASSES, body))
        must(tenant.post(CLAIMS, named(name, spec={**wanted, "storageClassName": name})))
    bigger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert tenant.patch(f"{CLAIMS}/elastic", bigger).status == 422
    for name in ("elastic", "stiff"):
        bound = [{"op": "add", "path": "/spec/volumeName", "value": f"pv-{name}"}]
        must(tenant.patch(f"{CLAIMS}/{name}", bound, "json-patch+json"), 200)
        status = {
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
        }
        must(tenant.patch(f"{CLAIMS}/{name}/status", status), 200)
    must(tenant.patch(f"{CLAIMS}/elastic", bigger), 200)
    assert "must support resize" in refused(tenant.patch(f"{CLAIMS}/stiff", bigger))


def test_an_ingress_gets_the_default_class(tenant: Caller) -> None:
    classes = "/apis/networking.k8s.io/v1/ingressclasses"
    ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    service = {"service": {"name": "s", "port": {"number": 80}}}
    must(tenant.post(classes, named("other", spec={"controller": "example.com/c"})))
    assert (
        "ingressClassName"
        not in must(tenant.post(ingresses, named("a", spec={"defaultBackend": service})))["spec"]
    )
    marked = {"name": "usual", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    must(tenant.post(classes, {"metadata": marked, "spec": {"controller": "example.com/c"}}))
    made = must(tenant.post(ingresses, named("b", spec={"defaultBackend": service})))
    assert made["spec"]["ingressClassName"] == "usual"
    own = {"defaultBackend": service, "ingressClassName": "other"}
    assert must(tenant.post(ingresses, named("c", spec=own)))["spec"]["ingressClassName"] == "other"


def test_pods_wait_five_minutes_for_a_lost_node(tenant: Caller) -> None:
    made = must(tenant.post(PODS, pod("a")))
    assert made["spec"]["tolerations"] == DEFAULT_TOLERATIONS
    del made["spec"]["tolerations"]
    changed = must(tenant.put(f"{PODS}/a", made), 200)
    assert changed["spec"]["tolerations"] == DEFAULT_TOLERATIONS
    anything = [{"operator": "Exists"}]
    assert must(tenant.post(PODS, pod("b", tolerations=anything)))["spec"]["tolerations"] == anything
    short = [
        {
            "key": "node.kubernetes.io/not-ready",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 5,
        }
    ]
    assert must(tenant.post(PODS, pod("c", tolerations=short)))["spec"]["tolerations"] == [
        *short,
        DEFAULT_TOLERATIONS[1],
    ]


def test_a_runtime_class_brings_overhead_and_nodes(tenant: Caller) -> None:
    scheduling = {
        "nodeSelector": {"sandbox": "yes"},
        "tolerations": [{"key": "sandbox", "operator": "Exists"}],
    }
    sandbox = named(
        "sandbox",
        handler="runsc",
        overhead={"podFixed": {"cpu": "250m", "memory": "64Mi"}},
        scheduling=scheduling,
    )
    must(tenant.post(RUNTIME_CLASSES, sandbox))
    tolerations = [
        {"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
        {"key": "a", "operator": "Exists"},
    ]
    given = pod("a", runtimeClassName="sandbox", nodeSelector={"disk": "ssd"}, tolerations=tolerations)
    spec = must(tenant.post(PODS, given))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "64Mi"}
    assert spec["nodeSelector"] == {"disk": "ssd", "sandbox": "yes"}
    assert spec["tolerations"] == [
        {"key": "a", "operator": "Exists"},
        *DEFAULT_TOLERATIONS,
        {"key": "sandbox", "operator": "Exists"},
    ]
    same = pod("b", runtimeClassName="sandbox", overhead={"cpu": "0.25", "memory": "64Mi"})
    must(tenant.post(PODS, same))
    other = pod("c", runtimeClassName="sandbox", overhead={"cpu": "1"})
    assert "Pod's Overhead doesn't match RuntimeClass's defined Overhead" in refused(tenant.post(PODS, other))
    bare = pod("d", overhead={"cpu": "1"})
    message = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert message in refused(tenant.post(PODS, bare))
    assert 'RuntimeClass "ghost" not found' in refused(tenant.post(PODS, pod("e", runtimeClassName="ghost")))
    conflict = pod("f", runtimeClassName="sandbox", nodeSelector={"sandbox": "no"})
    assert refused(tenant.post(PODS, conflict)).endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"
    )


# Limit ranges


def limits(*given: dict[str, Any]) -> dict[str, Any]:
    return named("limits", spec={"limits": list(given)})


def asking(name: str, **resources: dict[str, str]) -> dict[str, Any]:
    given = pod(name)
    given["spec"]["containers"][0]["resources"] = resources
    return given


def test_containers_get_defaults_and_the_class_that_follows(tenant: Caller) -> None:
    given = {
        "type": "Container",
        "default": {"cpu": "1"},
        "defaultRequest": {"cpu": "500m", "memory": "64Mi"},
    }
    must(tenant.post(f"{DEFAULT}/limitranges", limits(given)))
    made = must(tenant.post(PODS, pod()))
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "64Mi"},
        "limits": {"cpu": "1"},
    }
    assert made["status"]["qosClass"] == "Burstable"
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container c; cpu limit for container c"
    )
    own = must(
        tenant.post(PODS, asking("own", requests={"cpu": "1m", "memory": "1Mi"}, limits={"cpu": "2m"}))
    )
    assert own["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2m"}
    assert "annotations" not in own["metadata"]


def test_what_is_outside_of_the_limits_is_refused(tenant: Caller) -> None:
    given = {
        "type": "Container",
        "max": {"cpu": "1"},
        "min": {"cpu": "100m"},
        "maxLimitRequestRatio": {"cpu": "4"},
    }
    of_pod = {"type": "Pod", "max": {"memory": "1Gi"}}
    of_claim = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    must(tenant.post(f"{DEFAULT}/limitranges", limits(given, of_pod, of_claim)))

    def refusal(requests: dict[str, str], limits: dict[str, str]) -> str:
        memory = {"memory": "1Mi"}
        answer = tenant.post(PODS, asking("p", requests={**memory, **requests}, limits={**memory, **limits}))
        return refused(answer).removeprefix('pods "p" is forbidden: ')

    assert refusal({"cpu": "1"}, {"cpu": "2"}) == "maximum cpu usage per Container is 1, but limit is 2"
    assert refusal({"cpu": "50m"}, {"cpu": "100m"}) == (
        "minimum cpu usage per Container is 100m, but request is 50m"
    )
    assert refusal({"cpu": "100m"}, {"cpu": "500m"}) == (
        "cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000"
    )
    assert refusal({"cpu": "10m"}, {"cpu": "3"}) == (
        "[minimum cpu usage per Container is 100m, but request is 10m, maximum cpu usage per Container is 1, but "
        "limit is 3, cpu max limit to request ratio per Container is 4, but provided ratio is 300.000000]"
    )
    assert refusal({"cpu": "1"}, {"cpu": "1", "memory": "2Gi"}) == (
        "maximum memory usage per Pod is 1Gi, but limit is 2Gi"
    )
    for size, message in (("3Gi", "maximum"), ("1Mi", "minimum")):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        bound = "2Gi" if message == "maximum" else "1Gi"
        assert refused(tenant.post(CLAIMS, named("v", spec=spec))).endswith(
            f"{message} storage usage per PersistentVolumeClaim is {bound}, but request is {size}"
        )


# Certificates


def test_who_asks_for_a_certificate_is_what_the_server_saw(tenant: Caller) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    body = named(
        "mine",
        spec={
            "request": _CSR,
            "signerName": "example.com/own",
            "usages": ["client auth"],
            "username": "root",
        },
    )
    made = must(tenant.post(path, body))
    assert made["spec"]["username"] == "admin"
    assert "system:authenticated" in made["spec"]["groups"]


def _request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


_CSR = _request()


# Policies


def test_a_policys_status_reports_impossible_types(tenant: Caller) -> None:
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}
    policy = {
        "metadata": {"name": "few"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.replicas < 9"}],
        },
    }
    made = tenant.post(policies, policy).json
    [warning] = made["status"]["typeChecking"]["expressionWarnings"]
    assert made["status"]["observedGeneration"] == 1
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert "undefined field 'replicas'" in warning["warning"]
    corrected = {"spec": {"validations": [{"expression": "object.spec.replicas < 9"}]}}
    changed = tenant.patch(f"{policies}/few", corrected).json
    assert changed["status"] == {"observedGeneration": 2, "typeChecking": {}}
    labelled = tenant.patch(f"{policies}/few", {"metadata": {"labels": {"a": "b"}}}).json
    assert labelled["status"] == changed["status"]


def test_limit_ranges_of_a_namespace_are_bounded_together(tenant: Caller) -> None:
    """All of them are looked at for each container that is created there."""
    # Requests and limits get defaults of their own.
    limits = [{"type": "Container", "max": {f"example.com/r{number}": "1" for number in range(300)}}]
    path = "/api/v1/namespaces/default/limitranges"
    for name in ("one", "two"):
        answer = tenant.post(path, {"metadata": {"name": name}, "spec": {"limits": limits}})
        assert answer.status == 201, answer.body
    refused = tenant.post(path, {"metadata": {"name": "three"}, "spec": {"limits": limits}})
    assert refused.status == 403
    assert "can have at most 2000 values together" in refused.json["message"]
    fewer = [{"type": "Container", "max": {"cpu": "1"}}]
    assert tenant.patch(f"{path}/one", {"spec": {"limits": fewer}}).status == 200
