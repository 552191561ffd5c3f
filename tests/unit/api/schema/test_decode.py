import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import BadRequest
from alcove.api.schema import kubernetes_schemas
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode

DEFINITIONS = kubernetes_schemas.load()
POD = DEFINITIONS.node("io.k8s.api.core.v1.Pod")
SECRET = DEFINITIONS.node("io.k8s.api.core.v1.Secret")
EVENT = DEFINITIONS.node("io.k8s.api.core.v1.Event")
DEPLOYMENT = DEFINITIONS.node("io.k8s.api.apps.v1.Deployment")
CRD = DEFINITIONS.node("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}


def read(node: SchemaNode, obj: dict[str, Any]) -> dict[str, Any]:
    return decode(node, copy.deepcopy(obj))


def test_a_valid_object_is_left_as_it_is() -> None:
    container = {
        "name": "web",
        "ports": [{"containerPort": 80}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "livenessProbe": {"httpGet": {"port": "http"}},
        "readinessProbe": {"httpGet": {"port": 80}},
    }
    obj = pod(
        containers=[container],
        nodeSelector={"a": "b"},
        network="blue",
        nics=[{"subnet": "s", "ip": "10.0.0.1"}],
    )
    obj["metadata"].update(tenant="acme", selfLink="/x", creationTimestamp="2024-05-01T10:00:00Z")
    unknown: list[str] = []

    assert decode(POD, copy.deepcopy(obj), unknown=unknown) == obj
    assert unknown == []


STRUCT = 'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal'


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": "x"}, f"{STRUCT} string into Go struct field PodSpec.spec.containers of type []v1.Container"),
        ({"containers": [1]}, f"{STRUCT} number into Go struct field PodSpec.spec.containers of type v1.Container"),
        ({"containers": [{"args": [True]}]}, f"{STRUCT} bool into Go struct field Container.spec.containers.args of type string"),
        ({"nodeSelector": {"a": 1}}, f"{STRUCT} number into Go struct field PodSpec.spec.nodeSelector of type string"),
        ({"nodeSelector": []}, f"{STRUCT} array into Go struct field PodSpec.spec.nodeSelector of type map[string]string"),
        ({"priority": 2**31}, f"{STRUCT} number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
        ({"priority": 1.5}, f"{STRUCT} number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        ({"priority": True}, f"{STRUCT} bool into Go struct field PodSpec.spec.priority of type int32"),
        ({"activeDeadlineSeconds": 2**63}, f"{STRUCT} number {2**63} into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64"),
        ({"hostNetwork": "yes"}, f"{STRUCT} string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"securityContext": "x"}, f"{STRUCT} string into Go struct field PodSpec.spec.securityContext of type v1.PodSecurityContext"),
        (
            {"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]},
            f"{STRUCT} number into Go struct field HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type intstr.IntOrString",
        ),
    ],
)  # fmt: skip
def test_wrong_types_have_the_message_of_go(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decode(POD, pod(**spec))
    assert caught.value.message == message


@pytest.mark.parametrize("body", [[], "x", 1, None, True])
def test_body_that_is_no_object_is_refused(body: Any) -> None:
    with pytest.raises(BadRequest, match=r"into Go value of type v1\.Pod"):
        decode(POD, body)


def test_message_names_the_version_without_its_group() -> None:
    with pytest.raises(BadRequest, match=r'^Deployment in version "v1" cannot be handled as a Deployment: '):
        decode(DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "spec": 1})


def test_an_invalid_quantity_is_reported_with_its_path() -> None:
    with pytest.raises(BadRequest) as caught:
        decode(POD, pod(containers=[{"resources": {"limits": {"cpu": "1x"}}}]))
    assert "quantities must match the regular expression" in caught.value.message
    assert caught.value.message.endswith("(at spec.containers[0].resources.limits.cpu)")


@pytest.mark.parametrize("amount", [True, [], {}, "", "a"])
def test_what_is_no_quantity_is_refused(amount: Any) -> None:
    with pytest.raises(BadRequest):
        decode(POD, pod(containers=[{"resources": {"limits": {"cpu": amount}}}]))


def test_quantities_get_their_canonical_form() -> None:
    limits = {"cpu": 1, "memory": "1024Mi", "a": "0.5", "b": 0.25, "c": None}
    decoded = decode(POD, pod(containers=[{"resources": {"limits": limits}}]))
    assert decoded["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "1",
        "memory": "1Gi",
        "a": "500m",
        "b": "250m",
        "c": "0",
    }


def test_nulls_become_what_go_makes_of_them() -> None:
    obj = pod(containers=[None, {"name": None, "args": [None, "x"]}], nodeSelector={"a": None}, volumes=None)
    obj["status"] = None

    assert decode(POD, obj) == pod(containers=[{}, {"args": ["", "x"]}], nodeSelector={"a": ""})


def test_raw_values_keep_their_nulls_and_unknown_fields() -> None:
    schema = {"default": {"a": None}, "enum": [None, 1], "properties": {"x": {"default": [None]}}}
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": versions},
    }

    assert read(CRD, obj) == obj


def test_base64_is_checked_and_loses_its_line_ends() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "aGVs\nbG8=", "b": ""}}
    assert read(SECRET, secret)["data"] == {"a": "aGVsbG8=", "b": ""}

    for wrong, at in (("aGVsb!8=", 5), ("aGVsbG8", 7), ("aGVsbG8=x", 7)):
        with pytest.raises(BadRequest, match=f"illegal base64 data at input byte {at}"):
            decode(SECRET, {**secret, "data": {"a": wrong}})


def test_times_get_their_canonical_form() -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "firstTimestamp": "2024-05-01T12:00:00.9+02:00",
        "eventTime": "2024-05-01T10:00:00Z",
    }
    decoded = read(EVENT, event)
    assert decoded["firstTimestamp"] == "2024-05-01T10:00:00Z"
    assert decoded["eventTime"] == "2024-05-01T10:00:00.000000Z"


def test_unknown_fields_are_dropped_and_reported_by_path() -> None:
    obj = pod(containers=[{"name": "a"}, {"name": "b", "imagePul": "x", "ports": [{"prot": 1}]}], foo={})
    obj["bar"] = obj["metadata"]["baz"] = 1
    unknown: list[str] = []

    decoded = decode(POD, obj, unknown=unknown)

    assert decoded == pod(containers=[{"name": "a"}, {"name": "b", "ports": [{}]}])
    assert sorted(unknown) == [
        "bar",
        "metadata.baz",
        "spec.containers[1].imagePul",
        "spec.containers[1].ports[0].prot",
        "spec.foo",
    ]


def test_case_matters_in_field_names() -> None:
    unknown: list[str] = []
    decode(POD, pod(Containers=[]), unknown=unknown)
    assert unknown == ["spec.Containers"]


def test_schema_nested_deeper_than_python_can_go_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(2000):
        schema = {"not": schema}
    spec = {"versions": [{"schema": {"openAPIV3Schema": schema}}]}
    with pytest.raises(BadRequest, match="nested too deeply"):
        decode(CRD, {"apiVersion": "apiextensions.k8s.io/v1", "spec": spec})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["containers", "name", "resources", "limits", "cpu", "env", "labels", "ports", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=30,
)


@given(JSON, JSON)
def test_reading_is_refused_or_steady(meta: Any, spec: Any) -> None:
    """Whatever comes in either is refused, or reads the same when it is read again."""
    try:
        first = decode(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    except BadRequest:
        return
    unknown: list[str] = []
    assert decode(POD, copy.deepcopy(first), unknown=unknown) == first
    assert unknown == []
