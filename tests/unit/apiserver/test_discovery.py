"""Which form of discovery a client gets, by its Accept header, and what lists say of resources."""

import pytest

from alcove.api import registry
from alcove.apiserver.discovery import document, prefers_aggregated

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = V2.replace("v2", "v2beta1")
PROTOBUF = V2.replace("application/json", "application/vnd.kubernetes.protobuf")


@pytest.mark.parametrize(
    "accept",
    [
        V2,
        f"{V2},{V2BETA1},application/json",
        f"{V2BETA1},{V2},application/json",
        f"{PROTOBUF},{V2},application/json",
        "application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io",
    ],
)
def test_clients_that_know_the_aggregated_form_get_it(accept: str) -> None:
    assert prefers_aggregated(accept)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        f"application/json,{V2}",
        V2.replace("apidiscovery.k8s.io", "meta.k8s.io"),
        f"{PROTOBUF},application/json",
    ],
)
def test_others_get_lists(accept: str) -> None:
    assert not prefers_aggregated(accept)


def test_kubectl_before_1_30_finds_no_resources() -> None:
    """It asks for v2beta1, and ignores an answer of another version."""
    assert not prefers_aggregated(f"{V2BETA1},application/json")


def test_hashes_of_storage_versions_are_those_of_kubernetes() -> None:
    kinds = list(registry.load())

    def hashes(path: str) -> dict[str, str | None]:
        return {each["name"]: each.get("storageVersionHash") for each in document(kinds, path)["resources"]}

    core = hashes("/api/v1")
    assert core["configmaps"] == "qFsyl6wFWjQ="
    assert core["bindings"] is None and core["pods/status"] is None
    assert hashes("/apis/events.k8s.io/v1")["events"] == core["events"]
    scalers = {hashes(f"/apis/autoscaling/{version}")["horizontalpodautoscalers"] for version in ("v1", "v2")}
    assert scalers == {"qwQve8ut294="}
