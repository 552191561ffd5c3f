import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from alcove.api import registry
from alcove.api.ids import GroupResource, GroupVersionKind
from alcove.api.kind import VERBS, Scope
from alcove.api.registry import KindRegistry
from alcove.api.schema import kubernetes_schemas
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaType


@pytest.fixture(scope="module")
def kinds() -> KindRegistry:
    return registry.load()


def test_every_kind_is_found_by_resource_and_by_kind(kinds: KindRegistry) -> None:
    for kind in kinds:
        assert kinds.find(kind.group, kind.version, kind.resource) is kind
        assert kinds.find_kind(kind.group, kind.version, kind.kind) is kind
    assert kinds.find("", "v1", "pod") is None
    assert kinds.find_kind("apps", "v1beta1", "Deployment") is None
    assert len({(kind.group, kind.version, kind.resource) for kind in kinds}) == len(kinds.all())


def test_definitions_are_of_the_kinds_they_are_named_for(kinds: KindRegistry) -> None:
    documents = kubernetes_schemas.documents()
    for kind in kinds:
        messages = documents[kind.definition]["x-kubernetes-group-version-kind"]
        assert {"group": kind.group, "version": kind.version, "kind": kind.kind} in messages
        assert kind.schema.type is SchemaType.OBJECT
        assert kind.schema.name == kind.kind
        assert kind.schema.properties["metadata"].name == "ObjectMeta"


def test_groups_come_in_order_of_preference(kinds: KindRegistry) -> None:
    order = [group for group, _ in groupby(kinds, key=lambda kind: (kind.group, kind.version))]
    assert len(set(order)) == len(order), "the kinds of a group version stand together"
    assert order[0] == ("", "v1")
    assert order[-2:] == [("arktos.futurewei.com", "v1"), ("mizar.com", "v1")]
    assert order.index(("autoscaling", "v2")) < order.index(("autoscaling", "v1"))


def test_only_ring0_has_nodes_tenants_usage_and_the_vpc_providers_objects(kinds: KindRegistry) -> None:
    assert {str(kind.group_resource) for kind in kinds if kind.scope is Scope.RING0} == {
        "nodes",
        "nodes.metrics.k8s.io",
        "tenants",
        "bouncers.mizar.com",
        "dividers.mizar.com",
        "droplets.mizar.com",
        "endpoints.mizar.com",
        "subnets.mizar.com",
        "vpcs.mizar.com",
        "usagerecords.usage.alcove.io",
        "usagereports.usage.alcove.io",
    }


def test_every_object_has_one_place_in_the_store(kinds: KindRegistry) -> None:
    for kind in kinds:
        home = kinds.stored(kind.storage_resource)
        assert home is not None, kind.resource
        assert home.version == kind.storage_version
        assert home.scope is kind.scope
        assert home.to_storage is None
        if kind.to_storage is None:
            assert kind.schema.properties.get("spec") is home.schema.properties.get("spec"), kind.resource


@pytest.mark.parametrize(
    ("served", "stored", "version"),
    [
        (("autoscaling", "v1", "horizontalpodautoscalers"), GroupResource("autoscaling", "horizontalpodautoscalers"), "v2"),
        (("events.k8s.io", "v1", "events"), GroupResource("", "events"), "v1"),
        (("", "v1", "networks"), GroupResource("arktos.futurewei.com", "networks"), "v1"),
    ],
)  # fmt: skip
def test_second_forms_of_a_kind_share_its_store(
    kinds: KindRegistry, served: tuple[str, str, str], stored: GroupResource, version: str
) -> None:
    kind = kinds.find(*served)
    assert kind is not None
    assert (kind.storage_resource, kind.storage_version) == (stored, version)


def shown(
    kinds: KindRegistry, group: str, version: str, resource: str
) -> dict[str, tuple[str, tuple[str, ...]]]:
    kind = kinds.find(group, version, resource)
    assert kind is not None
    return {
        each.name: (f"{each.kind.api_version} {each.kind.kind}", each.verbs) for each in kind.subresources
    }


def test_subresources_are_those_of_a_real_server(kinds: KindRegistry) -> None:
    change, connect = ("get", "patch", "update"), ("create", "get")
    proxy = ("create", "delete", "get", "patch", "update")
    assert shown(kinds, "", "v1", "pods") == {
        "attach": ("v1 PodAttachOptions", connect),
        "binding": ("v1 Binding", ("create",)),
        "ephemeralcontainers": ("v1 Pod", change),
        "eviction": ("policy/v1 Eviction", ("create",)),
        "exec": ("v1 PodExecOptions", connect),
        "log": ("v1 Pod", ("get",)),
        "portforward": ("v1 PodPortForwardOptions", connect),
        "proxy": ("v1 PodProxyOptions", proxy),
        "resize": ("v1 Pod", change),
        "status": ("v1 Pod", change),
    }
    assert shown(kinds, "", "v1", "nodes")["proxy"] == ("v1 NodeProxyOptions", proxy)
    assert shown(kinds, "apps", "v1", "deployments") == {
        "scale": ("autoscaling/v1 Scale", change),
        "status": ("apps/v1 Deployment", change),
    }
    assert shown(kinds, "", "v1", "serviceaccounts") == {
        "token": ("authentication.k8s.io/v1 TokenRequest", ("create",))
    }
    assert shown(kinds, "", "v1", "tenants") == {
        "content": ("v1 Tenant", ("delete", "get", "update")),
        "finalize": ("v1 Tenant", ("update",)),
        "status": ("v1 Tenant", change),
    }
    assert "approval" in shown(kinds, "certificates.k8s.io", "v1", "certificatesigningrequests")


def test_verbs_are_those_of_a_real_server(kinds: KindRegistry) -> None:
    few = {str(kind.group_resource): kind.verbs for kind in kinds if kind.verbs != VERBS}
    one_by_one = ("create", "delete", "get", "list", "patch", "update", "watch")
    assert few == {
        "bindings": ("create",),
        "componentstatuses": ("get", "list"),
        "nodes.metrics.k8s.io": ("get", "list"),
        "pods.metrics.k8s.io": ("get", "list"),
        "captures.sight.alcove.io": ("create",),
        "flows.sight.alcove.io": ("list", "watch"),
        "tenantusages.sight.alcove.io": ("list",),
        "traces.sight.alcove.io": ("create",),
        "namespaces": one_by_one,
        "tenants": one_by_one,
        "selfsubjectreviews.authentication.k8s.io": ("create",),
        "tokenreviews.authentication.k8s.io": ("create",),
        "localsubjectaccessreviews.authorization.k8s.io": ("create",),
        "selfsubjectaccessreviews.authorization.k8s.io": ("create",),
        "selfsubjectrulesreviews.authorization.k8s.io": ("create",),
        "subjectaccessreviews.authorization.k8s.io": ("create",),
    }


STABLE = Path(__file__).with_name("stable_resources.txt")
"""Every resource and subresource of a stable version in the discovery of the Kubernetes release that is served, with its
verbs; `*` stands for all of a whole resource. From `api/discovery` of its sources."""
PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"


def test_every_stable_resource_of_kubernetes_is_served(kinds: KindRegistry) -> None:
    served = {(kind.api_version, kind.resource): set(kind.verbs) for kind in kinds}
    for kind in kinds:
        for each in kind.subresources:
            served[kind.api_version, f"{kind.resource}/{each.name}"] = set(each.verbs)
    expected = {}
    for line in STABLE.read_text().splitlines():
        version, resource, verbs = line.split()
        expected[version, resource] = set(VERBS if verbs == "*" else verbs.split(","))
    assert len(expected) > 120
    assert {each: served.get(each) for each in expected} == expected


def test_the_page_on_conformance_lists_every_stable_resource() -> None:
    rows = dict(re.findall(r"^\| `(\S+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    for line in STABLE.read_text().splitlines():
        version, resource, _ = line.split()
        parent, _, subresource = resource.partition("/")
        shown = re.search(rf"\b{parent}\b(?: \(([^)]*)\))?", rows[version])
        assert shown is not None, line
        assert not subresource or subresource in (shown[1] or "").split(", "), line


def test_short_names_mean_one_kind_each(kinds: KindRegistry) -> None:
    meant: dict[str, set[GroupResource]] = {}
    for kind in kinds:
        for name in kind.short_names:
            meant.setdefault(name, set()).add(kind.storage_resource)
    assert all(len(found) == 1 for found in meant.values())
    assert {"po", "svc", "deploy", "sts", "ds", "rs", "cj", "hpa", "crd", "te", "net", "ne"} <= meant.keys()


def test_bodies_beside_kinds_have_schemas(kinds: KindRegistry) -> None:
    for gvk in (
        GroupVersionKind("", "v1", "DeleteOptions"),
        GroupVersionKind("", "v1", "Binding"),
        GroupVersionKind("policy", "v1", "Eviction"),
        GroupVersionKind("autoscaling", "v1", "Scale"),
        GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
    ):
        body = kinds.body(gvk)
        assert body is not None
        assert body.name == gvk.kind
    assert kinds.body(GroupVersionKind("", "v1", "Nothing")) is None
    assert "tenant" in kinds.object_meta.properties


def test_kinds_with_a_status_subresource_keep_it_apart(kinds: KindRegistry) -> None:
    for kind in kinds:
        has_status = any(each.name == "status" for each in kind.subresources)
        assert kind.strategy.has_status == has_status, f"{kind.resource}.{kind.group}"


MANIFESTS = """
{apiVersion: v1, kind: Tenant, metadata: {name: t}, spec: {storageClusterId: "0", weight: 2, controlPlane: {mode: Shared}, quota: {hard: {pods: 5}}}}
---
{apiVersion: v1, kind: Network, metadata: {name: n}, spec: {type: vpc, vpc-id: vpc-1}}
---
apiVersion: arktos.futurewei.com/v1
kind: Network
metadata: {name: n, tenant: t}
spec: {type: mizar, vpcID: v, ip: 10.0.0.0, prefix: 16, subnets: [a, b], service: {ipam: External, cidrs: [10.1.0.0/16]}, egress: {enabled: true}}
---
{apiVersion: arktos.futurewei.com/v1, kind: Network, metadata: {name: n}, spec: {type: mizar, prefix: "16"}}
---
{apiVersion: mizar.com/v1, kind: Vpc, metadata: {name: v}, spec: {ip: "10.0.0.0", prefix: "16", dividers: 2, vni: "7", status: Init}}
---
{apiVersion: mizar.com/v1, kind: Subnet, metadata: {name: s}, spec: {ip: "10.0.1.0", prefix: 24, bouncers: 2, vpc: v, vni: 7, status: Init}}
---
apiVersion: mizar.com/v1
kind: Endpoint
metadata: {name: e}
spec: {type: simple, status: Init, vpc: v, net: s, ip: 10.0.1.2, gw: 10.0.1.1, mac: "aa:bb", vni: 7, droplet: d, prefix: 24, itf: e0, veth: v0, netns: n, hostip: h, hostmac: m, cnidelay: "", provisiondelay: "", createtime: "", pod: p}
---
{apiVersion: mizar.com/v1, kind: Bouncer, metadata: {name: b}, spec: {vpc: v, net: s, ip: i, mac: m, status: Init, droplet: d, vni: 7, nip: n, prefix: 24}}
---
{apiVersion: mizar.com/v1, kind: Divider, metadata: {name: d}, spec: {vpc: v, vni: "7", mac: m, ip: i, status: Init, droplet: d}}
---
{apiVersion: mizar.com/v1, kind: Droplet, metadata: {name: d}, spec: {main_ip: i, mac: m, ip: i, status: Init, itf: eth0}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}], network: n, nics: [{subnet: s, ip: 10.0.1.12}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {network: n, ports: [{port: 80, targetPort: 9376}]}}
"""


@pytest.mark.parametrize("manifest", list(yaml.safe_load_all(MANIFESTS)), ids=lambda each: each["kind"])
def test_manifests_of_arktos_and_mizar_are_read_whole(kinds: KindRegistry, manifest: dict[str, Any]) -> None:
    gvk = GroupVersionKind.parse(manifest["apiVersion"], manifest["kind"])
    schema = kinds.body(gvk)
    assert schema is not None
    unknown: list[str] = []
    decode(schema, manifest, unknown=unknown)
    assert unknown == []
