"""Privilege escalation through roles and bindings: who may write which."""

import asyncio

import pytest

from alcove.api.errors import Forbidden, NotFound
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.escalation import Escalation
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
RBAC = "rbac.authorization.k8s.io"
ANN = Identity(ACME, "ann", ("system:authenticated",))
PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
SECRETS = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
EVERYTHING = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


class World:
    def __init__(self) -> None:
        self.reader = MemoryReader()
        self.plugin = Escalation(Authorizer(self.reader), ComputeThreads())

    def give(self, tenant: TenantId, user: str, *rules: Object, namespace: str = "") -> None:
        name = f"of-{user}{namespace}"
        self.reader.put(tenant, CLUSTER_ROLES, {"metadata": {"name": name}, "rules": list(rules)})
        binding = bound(name, "ClusterRole", name)
        binding["subjects"] = [{"kind": "User", "name": user}]
        binding["metadata"]["namespace"] = namespace
        self.reader.put(tenant, ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding)

    async def write(
        self,
        resource: GroupResource,
        obj: Object,
        identity: Identity = ANN,
        old: Object | None = None,
        tenant: TenantId = ACME,
    ) -> None:
        operation = Operation.CREATE if old is None else Operation.UPDATE
        assert self.plugin.handles(operation, resource, "")
        await self.plugin.validate(
            Attributes(
                operation=operation,
                kind=kind(resource),
                tenant=tenant,
                namespace=obj["metadata"].get("namespace", ""),
                name=obj["metadata"]["name"],
                obj=obj,
                old=old,
                identity=identity,
            )
        )


def kind(resource: GroupResource) -> Kind:
    return Kind(
        group=resource.group,
        version="v1",
        kind=resource.resource,
        resource=resource.resource,
        singular=resource.resource,
        scope=Scope.TENANT,
        schema=SchemaNode(SchemaType.OBJECT),
    )


def role(*rules: Object, name: str = "r", namespace: str = "", **more: object) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": metadata, "rules": list(rules), **more}


def bound(name: str, ref_kind: str, ref_name: str, namespace: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    ref = {"apiGroup": RBAC, "kind": ref_kind, "name": ref_name}
    return {"metadata": metadata, "roleRef": ref, "subjects": [{"kind": "User", "name": "bob"}]}


@pytest.fixture
def world() -> World:
    world = World()
    world.give(ACME, "ann", PODS)
    return world


async def test_a_role_of_what_one_holds(world: World) -> None:
    await world.write(CLUSTER_ROLES, role(PODS))
    await world.write(ROLES, role({**PODS, "verbs": ["get"]}, namespace="ns"))


async def test_a_role_of_more_than_one_holds(world: World) -> None:
    with pytest.raises(Forbidden) as refusal:
        await world.write(CLUSTER_ROLES, role(PODS, SECRETS))
    assert refusal.value.message == (
        'clusterroles.rbac.authorization.k8s.io "r" is forbidden: user "ann" (groups=["system:authenticated"])'
        " is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
    )


async def test_rights_in_a_namespace_count_for_its_roles_only(world: World) -> None:
    world.give(ACME, "ann", SECRETS, namespace="ns")
    await world.write(ROLES, role(SECRETS, namespace="ns"))
    with pytest.raises(Forbidden):
        await world.write(ROLES, role(SECRETS, namespace="other"))
    with pytest.raises(Forbidden):
        await world.write(CLUSTER_ROLES, role(SECRETS))


async def test_growing_a_role_is_checked_like_making_it(world: World) -> None:
    with pytest.raises(Forbidden):
        await world.write(CLUSTER_ROLES, role(SECRETS), old=role(PODS))
    await world.write(CLUSTER_ROLES, role(PODS), old=role(SECRETS))


async def test_the_verb_escalate_is_enough(world: World) -> None:
    world.give(
        ACME,
        "carl",
        {"verbs": ["escalate"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["r"]},
    )
    carl = Identity(ACME, "carl")
    await world.write(CLUSTER_ROLES, role(*EVERYTHING), carl)
    with pytest.raises(Forbidden):
        await world.write(CLUSTER_ROLES, role(*EVERYTHING, name="other"), carl)


async def test_masters_may_write_anything_in_their_tenant(world: World) -> None:
    await world.write(CLUSTER_ROLES, role(*EVERYTHING), Identity(ACME, "boss", ("system:masters",)))
    root = Identity(SYSTEM, "root", ("system:masters",))
    await world.write(CLUSTER_ROLES, role(*EVERYTHING), root)


AGGREGATION = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}


async def test_aggregation_is_for_who_may_do_everything(world: World) -> None:
    aggregated = role(aggregationRule=AGGREGATION)
    message = "must have cluster-admin privileges to use the aggregationRule"
    with pytest.raises(Forbidden, match=message):
        await world.write(CLUSTER_ROLES, aggregated)
    with pytest.raises(Forbidden, match=message):
        await world.write(CLUSTER_ROLES, role(PODS), old=aggregated)
    world.give(ACME, "dora", *EVERYTHING)
    await world.write(CLUSTER_ROLES, aggregated, Identity(ACME, "dora"))


async def test_binding_a_role_one_holds(world: World) -> None:
    world.reader.put(ACME, CLUSTER_ROLES, role(PODS, name="pods"))
    await world.write(CLUSTER_ROLE_BINDINGS, bound("b", "ClusterRole", "pods"))
    await world.write(ROLE_BINDINGS, bound("b", "ClusterRole", "pods", "ns"))


@pytest.mark.parametrize("name", ["cluster-admin", "admin", "edit", "view", "secrets"])
async def test_binding_a_role_one_does_not_hold(world: World, name: str) -> None:
    world.reader.put(ACME, CLUSTER_ROLES, role(SECRETS, name="secrets"))
    with pytest.raises(Forbidden, match="attempting to grant RBAC permissions not currently held"):
        await world.write(CLUSTER_ROLE_BINDINGS, bound("b", "ClusterRole", name))


async def test_the_verb_bind_is_enough_where_it_is_held(world: World) -> None:
    world.give(
        ACME,
        "carl",
        {"verbs": ["bind"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["view"]},
        namespace="ns",
    )
    carl = Identity(ACME, "carl")
    await world.write(ROLE_BINDINGS, bound("b", "ClusterRole", "view", "ns"), carl)
    for resource, binding in (
        (ROLE_BINDINGS, bound("b", "ClusterRole", "edit", "ns")),
        (ROLE_BINDINGS, bound("b", "ClusterRole", "view", "other")),
        (CLUSTER_ROLE_BINDINGS, bound("b", "ClusterRole", "view")),
    ):
        with pytest.raises(Forbidden):
            await world.write(resource, binding, carl)


async def test_a_namespace_admin_binds_what_admins_hold_there(world: World) -> None:
    admin = bound("admins", "ClusterRole", "admin", "ns")
    admin["subjects"] = [{"kind": "User", "name": "eve"}]
    world.reader.put(ACME, ROLE_BINDINGS, admin)
    eve = Identity(ACME, "eve")
    for name in ("view", "edit", "admin"):
        await world.write(ROLE_BINDINGS, bound("b", "ClusterRole", name, "ns"), eve)
    with pytest.raises(Forbidden):
        await world.write(ROLE_BINDINGS, bound("b", "ClusterRole", "cluster-admin", "ns"), eve)


async def test_a_role_that_is_not_there_cannot_be_bound(world: World) -> None:
    with pytest.raises(NotFound, match=r'roles\.rbac\.authorization\.k8s\.io "gone" not found'):
        await world.write(ROLE_BINDINGS, bound("b", "Role", "gone", "ns"))


async def test_the_role_is_read_where_the_binding_is_and_the_rights_where_the_writer_is(world: World) -> None:
    operator = Identity(SYSTEM, "operator")
    world.give(SYSTEM, "operator", PODS)
    world.reader.put(SYSTEM, CLUSTER_ROLES, role(PODS, name="x"))
    world.reader.put(ACME, CLUSTER_ROLES, role(SECRETS, name="x"))
    await world.write(CLUSTER_ROLE_BINDINGS, bound("b", "ClusterRole", "x"), operator, tenant=SYSTEM)
    with pytest.raises(Forbidden):
        await world.write(CLUSTER_ROLE_BINDINGS, bound("b", "ClusterRole", "x"), operator)
    world.give(SYSTEM, "operator", SECRETS, namespace="ns")
    with pytest.raises(Forbidden):
        await world.write(ROLE_BINDINGS, bound("b", "ClusterRole", "x", "ns"), operator)


async def test_the_controllers_may_hand_out_a_new_tenants_admin_role(world: World) -> None:
    controllers = Identity(SYSTEM, "system:kube-controller-manager")
    await world.write(CLUSTER_ROLES, role(*EVERYTHING, name="admin-role"), controllers)
    world.reader.put(ACME, CLUSTER_ROLES, role(*EVERYTHING, name="admin-role"))
    await world.write(
        CLUSTER_ROLE_BINDINGS, bound("admin-role-binding", "ClusterRole", "admin-role"), controllers
    )


async def test_finalizers_can_be_removed_by_who_holds_nothing(world: World) -> None:
    old = role(*EVERYTHING)
    old["metadata"]["finalizers"] = ["x"]
    await world.write(CLUSTER_ROLES, role(*EVERYTHING), Identity(ACME, "gc"), old)


async def test_a_role_too_large_to_check_is_refused(world: World) -> None:
    many = [f"x{n}" for n in range(100)]
    with pytest.raises(Forbidden, match="make several roles of it"):
        await world.write(CLUSTER_ROLES, role({"verbs": ["get"], "apiGroups": many, "resources": many}))


async def test_a_long_check_lets_others_be_served_meanwhile(world: World) -> None:
    held = [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]} for number in range(5_000)]
    world.give(ACME, "ann", *held)
    wanted = [
        {"verbs": ["get"], "apiGroups": [f"g{number}"], "resources": ["pods"]} for number in range(2_000)
    ]
    writing = asyncio.ensure_future(world.write(CLUSTER_ROLES, role(*wanted)))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    with pytest.raises(Forbidden, match="and 1950 more"):
        await writing
    assert turns > 2


def test_handles_writes_of_roles_and_bindings_only(world: World) -> None:
    handles = world.plugin.handles
    assert handles(Operation.UPDATE, ROLE_BINDINGS, "")
    assert not handles(Operation.DELETE, ROLES, "")
    assert not handles(Operation.CREATE, GroupResource("", "pods"), "")
