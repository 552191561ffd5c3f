from alcove.api.schema import alcove_schemas, kubernetes_schemas
from alcove.api.schema.decode import decode
from alcove.api.schema.node import ListType, SchemaNode, SchemaType

CORE = "io.k8s.api.core.v1"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
DEFINITIONS = kubernetes_schemas.load()


def at(definition: str, *path: str) -> SchemaNode:
    node = DEFINITIONS.node(definition)
    for step in path:
        following = node.items if step == "[]" else node.values if step == "*" else node.properties[step]
        assert following is not None
        node = following
    return node


def test_lists_carry_their_merge_rules() -> None:
    containers = at(f"{CORE}.PodSpec", "containers")
    assert containers.type is SchemaType.LIST
    assert containers.list_type is ListType.MAP
    assert containers.list_map_keys == ("name",)
    assert containers.merge_key == "name"
    assert containers.patch_strategy == {"merge"}

    assert at(f"{CORE}.PodSpec", "volumes").patch_strategy == {"merge", "retainKeys"}
    assert at(f"{META}.ObjectMeta", "finalizers").list_type is ListType.SET
    assert at(f"{CORE}.Container", "args").list_type is ListType.ATOMIC


def test_place_of_use_may_merge_otherwise_than_its_definition() -> None:
    strategy = at("io.k8s.api.apps.v1.DeploymentSpec", "strategy")
    definition = at("io.k8s.api.apps.v1.DeploymentStrategy")
    assert strategy.patch_strategy == {"retainKeys"}
    assert definition.patch_strategy == frozenset()
    assert strategy.properties is definition.properties

    assert at(f"{CORE}.ObjectReference").atomic
    assert not at(f"{CORE}.PersistentVolumeSpec", "claimRef").atomic


def test_types_that_read_json_in_their_own_way() -> None:
    assert at(f"{CORE}.ResourceRequirements", "limits", "*").type is SchemaType.QUANTITY
    assert at(f"{CORE}.HTTPGetAction", "port").type is SchemaType.INT_OR_STRING
    assert at(f"{META}.ManagedFieldsEntry", "fieldsV1").type is SchemaType.ANY
    assert at("io.k8s.api.apps.v1.ControllerRevision", "data").type is SchemaType.ANY
    assert at(f"{CORE}.Secret", "data", "*").format == "byte"
    assert at(f"{META}.ObjectMeta", "creationTimestamp").name == "Time"
    assert at(f"{CORE}.Event", "eventTime").name == "MicroTime"
    assert at(f"{CORE}.PodSpec", "priority").format == "int32"


def test_definitions_may_lead_back_to_themselves() -> None:
    schema = at("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert schema.properties["not"] is schema
    assert schema.properties["properties"].values is schema


def test_scalars_are_shared() -> None:
    assert at(f"{CORE}.Container", "image") is at(f"{CORE}.PodSpec", "nodeName")


def test_stock_definitions_have_what_we_add() -> None:
    assert at(f"{META}.ObjectMeta", "tenant").type is SchemaType.STRING
    assert at(f"{CORE}.PodSpec", "network").type is SchemaType.STRING
    assert at(f"{CORE}.PodSpec", "nics", "[]", "ip").type is SchemaType.STRING
    assert at(f"{CORE}.ServiceSpec", "network").type is SchemaType.STRING
    assert at(f"{CORE}.ContainerPort", "protocol").default == "TCP"


def test_numbers_of_mizar_may_be_texts() -> None:
    for path in (("Vpc", "prefix"), ("Vpc", "dividers"), ("Subnet", "bouncers"), ("Endpoint", "vni")):
        assert at(f"{alcove_schemas.MIZAR}.{path[0]}", "spec", path[1]).type is SchemaType.INT_OR_STRING


def test_every_definition_of_ours_compiles_and_explains_itself() -> None:
    documents = kubernetes_schemas.documents()
    for name in alcove_schemas.DEFINITIONS:
        assert DEFINITIONS.node(name).type is SchemaType.OBJECT
        for field, schema in documents[name]["properties"].items():
            assert schema.get("description"), f"{name}.{field}"


def test_documents_show_what_we_add() -> None:
    documents = kubernetes_schemas.documents()
    added = documents[f"{CORE}.ContainerPort"]["properties"]["protocol"]
    assert added["default"] == "TCP"
    assert added["description"].startswith("Protocol for port")
    assert "nics" in documents[f"{CORE}.PodSpec"]["properties"]


def test_fields_of_features_that_are_off_are_unknown_and_clients_are_told() -> None:
    pod = kubernetes_schemas.load().node("io.k8s.api.core.v1.Pod")
    container = {"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["x"]}]}
    spec = {"containers": [container], "schedulingGroup": {"podGroupName": "g"}}
    unknown: list[str] = []
    decoded = decode(pod, {"metadata": {"name": "a"}, "spec": spec}, unknown=unknown)
    assert unknown == ["spec.containers[0].volumeMounts[0].bindMountOptions", "spec.schedulingGroup"]
    assert "schedulingGroup" not in decoded["spec"]


def test_removed_fields_are_in_the_release_and_not_in_the_documents() -> None:
    documents = kubernetes_schemas.documents()
    for definition, removed in kubernetes_schemas.REMOVED.items():
        assert not set(removed) & set(documents[definition]["properties"])
