"""An example of each kind, and the row that kubectl would show of it."""

from typing import Any

import pytest

from alcove.api.columns import columns_for

NOW = 1_714_557_600.0  # 2024-05-01T10:00:00Z
META = {"name": "x", "creationTimestamp": "2024-05-01T09:00:00Z"}
TEMPLATE = {
    "spec": {
        "containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}],
        "nodeSelector": {"d": "e"},
    }
}
SELECTOR = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [{"key": "t", "operator": "In", "values": ["b", "a"]}],
}


def row(group: str, kind: str, **obj: Any) -> list[Any]:
    shown = {"metadata": META, **obj}
    return [column.value(shown, NOW) for column in columns_for(group, kind)]


ROWS: list[tuple[str, str, dict[str, Any], list[Any]]] = [
    ("", "ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}}, ["x", 2, "60m"]),
    ("", "Secret", {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, "60m"]),
    ("", "Namespace", {"status": {"phase": "Active"}}, ["x", "Active", "60m"]),
    ("", "ServiceAccount", {"secrets": [{}]}, ["x", 1, "60m"]),
    ("", "LimitRange", {}, ["x", "2024-05-01T09:00:00Z"]),
    (
        "",
        "ResourceQuota",
        {"status": {"hard": {"pods": "3", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1", "limits.cpu": "1"}}},
        ["x", "cpu: 0/1, pods: 1/3", "limits.cpu: 1/2", "60m"],
    ),
    (
        "",
        "Event",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
            "type": "Warning",
            "reason": "Failed",
            "message": "no \n",
            "source": {"component": "agent", "host": "n1"},
            "firstTimestamp": "2024-05-01T09:00:00Z",
            "lastTimestamp": "2024-05-01T09:59:00Z",
            "count": 3,
        },
        ["60s", "Warning", "Failed", "pod/p", "spec", "agent, n1", "no", "60m", 3, "x"],
    ),
    (
        "events.k8s.io",
        "Event",
        {
            "regarding": {"kind": "Node"},
            "note": "n",
            "eventTime": "2024-05-01T09:00:00.000000Z",
            "reportingController": "c",
            "series": {"count": 7, "lastObservedTime": "2024-05-01T09:59:00.000000Z"},
        },
        ["60s", "", "", "node", "", "c", "n", "60m", 7, "x"],
    ),
    (
        "",
        "Node",
        {
            "metadata": {**META, "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "6", "containerRuntimeVersion": "crun"},
            },
        },
        ["x", "NotReady,SchedulingDisabled", "edge,worker", "60m", "v1", "10.0.0.1", "<none>", "os", "6", "crun"],
    ),
    (
        "",
        "Service",
        {
            "spec": {
                "type": "LoadBalancer",
                "clusterIPs": ["10.1.0.1"],
                "externalIPs": ["1.1.1.1"],
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                "selector": {"b": "2", "a": "1"},
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}]}},
        },
        ["x", "LoadBalancer", "10.1.0.1", "2.2.2.2,h,1.1.1.1", "80:30080/TCP,53/UDP", "60m", "a=1,b=2"],
    ),
    ("", "Service", {"spec": {"type": "LoadBalancer"}}, ["x", "LoadBalancer", "<none>", "<pending>", "<none>", "60m", "<none>"]),
    (
        "",
        "Service",
        {"spec": {"type": "ExternalName", "externalName": "e.example"}},
        ["x", "ExternalName", "<none>", "e.example", "<none>", "60m", "<none>"],
    ),
    (
        "",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": f"10.0.0.{i}"} for i in range(5)], "ports": [{"port": 80}]}]},
        ["x", "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...", "60m"],
    ),
    (
        "discovery.k8s.io",
        "EndpointSlice",
        {"addressType": "IPv4", "ports": [{"port": 80}, {}], "endpoints": [{"addresses": ["10.0.0.1"]}]},
        ["x", "IPv4", "80,*", "10.0.0.1", "60m"],
    ),
    (
        "networking.k8s.io",
        "Ingress",
        {"spec": {"rules": [{"host": "a"}, {}], "tls": [{}]}, "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}},
        ["x", "<none>", "a", "1.1.1.1", "80, 443", "60m"],
    ),
    (
        "networking.k8s.io",
        "IngressClass",
        {"spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}},
        ["x", "c", "K.g/n", "60m"],
    ),
    ("networking.k8s.io", "NetworkPolicy", {"spec": {"podSelector": SELECTOR}}, ["x", "app=x,t in (a,b)", "60m"]),
    ("networking.k8s.io", "NetworkPolicy", {"spec": {"podSelector": {}}}, ["x", "<none>", "60m"]),
    (
        "apps",
        "Deployment",
        {
            "spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        },
        ["x", "1/3", 2, 1, "60m", "a,b", "i:1,j", "app=x,t in (a,b)"],
    ),
    (
        "apps",
        "DaemonSet",
        {
            "spec": {"template": TEMPLATE, "selector": SELECTOR},
            "status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1},
        },
        ["x", 3, 2, 1, 0, 0, "d=e", "60m", "a,b", "i:1,j", "app=x,t in (a,b)"],
    ),
    (
        "apps",
        "ReplicaSet",
        {"spec": {"replicas": 2, "template": TEMPLATE, "selector": SELECTOR}, "status": {"replicas": 1}},
        ["x", 2, 1, 0, "60m", "a,b", "i:1,j", "app=x,t in (a,b)"],
    ),
    (
        "",
        "ReplicationController",
        {"spec": {"replicas": 2, "template": TEMPLATE, "selector": {"app": "x"}}, "status": {"readyReplicas": 2}},
        ["x", 2, 0, 2, "60m", "a,b", "i:1,j", "app=x"],
    ),
    ("apps", "StatefulSet", {"spec": {"replicas": 2, "template": TEMPLATE}}, ["x", "0/2", "60m", "a,b", "i:1,j"]),
    (
        "apps",
        "ControllerRevision",
        {
            "metadata": {**META, "ownerReferences": [{"controller": True, "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}]},
            "revision": 4,
        },
        ["x", "daemonset.apps/d", 4, "60m"],
    ),
    (
        "batch",
        "Job",
        {
            "spec": {"completions": 3, "template": TEMPLATE, "selector": SELECTOR},
            "status": {
                "succeeded": 3,
                "startTime": "2024-05-01T09:00:00Z",
                "completionTime": "2024-05-01T09:05:10Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        },
        ["x", "Complete", "3/3", "5m10s", "60m", "a,b", "i:1,j", "app=x,t in (a,b)"],
    ),
    (
        "batch",
        "Job",
        {"spec": {"parallelism": 2, "template": TEMPLATE}, "status": {"startTime": "2024-05-01T09:59:00Z"}},
        ["x", "Running", "0/1 of 2", "60s", "60m", "a,b", "i:1,j", "<none>"],
    ),
    (
        "batch",
        "CronJob",
        {
            "spec": {"schedule": "* * * * *", "suspend": False, "jobTemplate": {"spec": {"template": TEMPLATE}}},
            "status": {"active": [{}], "lastScheduleTime": "2024-05-01T09:59:30Z"},
        },
        ["x", "* * * * *", "<none>", "False", 1, "30s", "60m", "a,b", "i:1,j", "<none>"],
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                    {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                    {"type": "External", "external": {"target": {"value": "3"}}},
                ],
            },
            "status": {
                "currentReplicas": 2,
                "currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 5}}}],
            },
        },
        ["x", "Deployment/d", "cpu: 5%/80%, <unknown>/10 + 1 more...", "<unset>", 5, 2, "60m"],
    ),
    (
        "",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "n", "name": "c"},
                "storageClassName": "fast",
                "volumeMode": "Block",
            },
            "status": {"phase": "Bound"},
        },
        ["x", "1Gi", "RWO,RWX", "Retain", "Bound", "n/c", "fast", "<unset>", "", "60m", "Block"],
    ),
    (
        "",
        "PersistentVolumeClaim",
        {
            "spec": {"volumeName": "v"},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]},
        },
        ["x", "Bound", "v", "2Gi", "RWOP", "", "<unset>", "60m", "<unset>"],
    ),
    (
        "storage.k8s.io",
        "StorageClass",
        {
            "metadata": {**META, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p",
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        ["x (default)", "p", "Retain", "WaitForFirstConsumer", False, "60m"],
    ),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ],
        },
        ["x", "Role/r", "60m", "u, v", "", "n/s"],
    ),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        {
            "spec": {"signerName": "s", "username": "u", "expirationSeconds": 86400},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "eA=="},
        },
        ["x", "60m", "s", "u", "24h", "Approved,Issued"],
    ),
    ("policy", "PodDisruptionBudget", {"spec": {"minAvailable": 0}}, ["x", "0", "N/A", 0, "60m"]),
    (
        "apiregistration.k8s.io",
        "APIService",
        {"spec": {}, "status": {"conditions": [{"type": "Available", "status": "False", "reason": "Down"}]}},
        ["x", "Local", "False (Down)", "60m"],
    ),
    ("resource.k8s.io", "ResourceClaim", {"status": {"allocation": {}, "reservedFor": [{}]}}, ["x", "allocated,reserved", "60m"]),
    ("", "Tenant", {"spec": {"weight": 3}, "status": {"phase": "Active"}}, ["x", "Active", "Shared", 3, "60m", "<none>"]),
    (
        "arktos.futurewei.com",
        "Network",
        {"spec": {"type": "vpc", "vpcID": "v"}, "status": {"phase": "Ready", "dnsServiceIP": "10.0.0.2"}},
        ["x", "vpc", "v", "<none>", "Ready", "10.0.0.2", "60m", "<none>", ""],
    ),
    (
        "arktos.futurewei.com",
        "Network",
        {"spec": {"type": "mizar"}, "status": {"vpc": "t-x", "cidr": "10.1.0.0/16", "vni": 7, "message": "m"}},
        ["x", "mizar", "t-x", "10.1.0.0/16", "", "<none>", "60m", 7, "m"],
    ),
    (
        "mizar.com",
        "Vpc",
        {"spec": {"ip": "10.0.0.0", "prefix": "16", "vni": 7, "dividers": 2, "status": "Provisioned"}},
        ["x", "10.0.0.0/16", 7, 2, "Provisioned", "60m", ""],
    ),
    (
        "mizar.com",
        "Subnet",
        {"spec": {"ip": "10.0.1.0", "prefix": 24, "vpc": "v", "bouncers": 1}, "status": {"used": 3, "free": 250}},
        ["x", "10.0.1.0/24", "v", "<none>", 1, 3, 250, "<none>", "60m", ""],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "obj", "expected"), ROWS, ids=[f"{each[1]}-{i}" for i, each in enumerate(ROWS)]
)
def test_row(group: str, kind: str, obj: dict[str, Any], expected: list[Any]) -> None:
    assert row(group, kind, **obj) == expected


def test_deleted_volume_and_tenant_are_terminating() -> None:
    going = {**META, "deletionTimestamp": "2024-05-01T09:30:00Z"}
    for group, kind, at in (
        ("", "PersistentVolume", 4),
        ("", "Tenant", 1),
        ("arktos.futurewei.com", "Network", 4),
    ):
        assert row(group, kind, metadata=going, status={"phase": "Ready"})[at] == "Terminating"
