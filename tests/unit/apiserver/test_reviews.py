"""Reviews behind `kubectl auth can-i`, `can-i --list` and `whoami`, and those of delegated authentication."""

import asyncio

import pytest

from alcove.api.errors import BadRequest, Invalid
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import SERVICE_ACCOUNTS
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.authenticate import Authenticator
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.auth.tokens import BoundObject, TokenObjectRef, Tokens
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from alcove.apiserver.reviews import Reviews
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")
NOW = 1_800_000_000.0
KEYS = SigningKeys(certificates.new_key())
ANN = Identity(ACME, "ann", ("dev", "system:authenticated"), "u1", {"scopes": ("a", "b")})


class World:
    def __init__(self) -> None:
        self.reader = MemoryReader()
        self.reader.put(
            ACME, SERVICE_ACCOUNTS, {"metadata": {"name": "ci", "namespace": "default", "uid": "sa-uid"}}
        )
        self.bind(ACME, "view", "ann", "default")
        self.bind(OTHER, "cluster-admin", "ann")
        self.bind(SYSTEM, "view", "operator")
        self.tokens = Tokens(KEYS, self.reader, lambda: NOW)
        authenticator = Authenticator(self.reader, self.tokens, lambda: NOW)
        self.reviews = Reviews(Authorizer(self.reader), authenticator, lambda: NOW, ComputeThreads())

    def bind(self, tenant: TenantId, role: str, user: str, namespace: str = "") -> None:
        binding = {
            "metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        }
        self.reader.put(tenant, ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding)

    async def ask(
        self,
        kind: str,
        spec: Object,
        identity: Identity = ANN,
        tenant: TenantId = ACME,
        namespace: str = "",
        **metadata: object,
    ) -> Object:
        obj = {"apiVersion": "x", "kind": kind, "metadata": metadata, "spec": spec}
        answer = await self.reviews.review(kind, obj, identity, tenant, namespace)
        assert answer["spec"] == spec and answer["kind"] == kind
        status: Object = answer["status"]
        return status


@pytest.fixture
def world() -> World:
    return World()


def pods(verb: str = "get", namespace: str = "default") -> Object:
    return {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": namespace}}


async def test_self_subject_access_review(world: World) -> None:
    yes = await world.ask("SelfSubjectAccessReview", pods())
    assert yes == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/default" of ClusterRole "view" to User "ann"',
    }
    assert await world.ask("SelfSubjectAccessReview", pods("delete")) == {"allowed": False}
    assert await world.ask("SelfSubjectAccessReview", pods(namespace="other")) == {"allowed": False}


async def test_can_i_reach_a_path(world: World) -> None:
    def url_access(path: str) -> Object:
        return {"nonResourceAttributes": {"verb": "get", "path": path}}

    assert (await world.ask("SelfSubjectAccessReview", url_access("/api")))["allowed"]
    assert not (await world.ask("SelfSubjectAccessReview", url_access("/metrics")))["allowed"]
    assert not (await world.ask("SelfSubjectAccessReview", url_access("")))["allowed"]


async def test_can_a_ring0_caller_in_a_tenant(world: World) -> None:
    operator = Identity(SYSTEM, "operator")
    assert (await world.ask("SelfSubjectAccessReview", pods(), operator))["allowed"]
    assert not (await world.ask("SelfSubjectAccessReview", pods("delete"), operator))["allowed"]


async def test_can_somebody_else_of_the_requests_tenant(world: World) -> None:
    spec = {**pods(), "user": "ann"}
    assert (await world.ask("SubjectAccessReview", spec))["allowed"]
    delete = {**pods("delete"), "user": "ann", "groups": ["system:authenticated"]}
    assert not (await world.ask("SubjectAccessReview", delete))["allowed"]
    root = Identity(SYSTEM, "root", ("system:masters",))
    assert (await world.ask("SubjectAccessReview", delete, root, OTHER))["allowed"]


async def test_a_ring0_groups_name_in_a_tenants_review_is_the_tenants(world: World) -> None:
    spec = {"resourceAttributes": {"verb": "list", "resource": "tenants"}, "groups": ["system:nodes"]}
    assert not (await world.ask("SubjectAccessReview", spec))["allowed"]
    root = Identity(SYSTEM, "root", ("system:masters",))
    assert (await world.ask("SubjectAccessReview", spec, root, SYSTEM))["allowed"]


async def test_a_local_review_stays_in_its_namespace(world: World) -> None:
    spec = {**pods(), "user": "ann"}
    obj = {"kind": "LocalSubjectAccessReview", "metadata": {"namespace": "default"}, "spec": spec}
    answer = await world.reviews.review("LocalSubjectAccessReview", obj, ANN, ACME, "default")
    assert answer["status"]["allowed"] and answer["metadata"] == {"namespace": "default"}
    with pytest.raises(Invalid, match=r"must match metadata\.namespace"):
        await world.ask("LocalSubjectAccessReview", spec, ANN, ACME, "other")
    path = {"nonResourceAttributes": {"path": "/", "verb": "get"}, "user": "ann"}
    with pytest.raises(Invalid, match="disallowed on this kind of request"):
        await world.ask("LocalSubjectAccessReview", path, ANN, ACME, "default")


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("SelfSubjectAccessReview", {}, "exactly one of nonResourceAttributes or resourceAttributes"),
        (
            "SelfSubjectAccessReview",
            {**pods(), "nonResourceAttributes": {"path": "/"}},
            "exactly one of nonResourceAttributes or resourceAttributes",
        ),
        ("SubjectAccessReview", pods(), "at least one of user or group must be specified"),
    ],
)
async def test_invalid_reviews_are_rejected(world: World, kind: str, spec: Object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await world.ask(kind, spec)


async def test_a_review_with_metadata_is_rejected(world: World) -> None:
    with pytest.raises(Invalid, match=r"metadata: Invalid value: .*must be empty"):
        await world.ask("SelfSubjectAccessReview", pods(), name="x")
    assert (await world.ask("SelfSubjectAccessReview", pods(), creationTimestamp=None, managedFields=[]))[
        "allowed"
    ]


async def test_can_i_list(world: World) -> None:
    found = await world.ask("SelfSubjectRulesReview", {"namespace": "default"})
    assert found["incomplete"] is False
    basic = {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    }
    assert basic in found["resourceRules"]
    assert any("pods/log" in rule["resources"] for rule in found["resourceRules"])
    assert any("/openapi/*" in rule["nonResourceURLs"] for rule in found["nonResourceRules"])
    elsewhere = await world.ask("SelfSubjectRulesReview", {"namespace": "other"})
    assert not any("pods/log" in rule["resources"] for rule in elsewhere["resourceRules"])
    with pytest.raises(BadRequest, match="no namespace on request"):
        await world.ask("SelfSubjectRulesReview", {})


async def test_a_list_for_masters_allows_everything(world: World) -> None:
    boss = Identity(ACME, "boss", ("system:masters",))
    found = await world.ask("SelfSubjectRulesReview", {"namespace": "default"}, boss)
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in found["resourceRules"]


async def test_thousands_of_rules_are_listed_while_others_are_served(world: World) -> None:
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]} for number in range(5_000)]
    world.reader.put(ACME, CLUSTER_ROLES, {"metadata": {"name": "many"}, "rules": rules})
    world.bind(ACME, "many", "ann")
    listing = asyncio.ensure_future(world.ask("SelfSubjectRulesReview", {"namespace": "default"}))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["r4999"]} in (await listing)["resourceRules"]
    assert turns > 2


async def test_self_subject_review(world: World) -> None:
    answer = await world.reviews.review("SelfSubjectReview", {"kind": "SelfSubjectReview"}, ANN, ACME)
    assert answer["metadata"] == {"creationTimestamp": "2027-01-15T08:00:00Z"}
    assert answer["status"] == {
        "userInfo": {
            "username": "ann",
            "uid": "u1",
            "groups": ["dev", "system:authenticated"],
            "extra": {"scopes": ["a", "b"], "alcove/tenant": ["acme"]},
        }
    }


def token(world: World, *audiences: str) -> str:
    bound = BoundObject(ACME, "default", TokenObjectRef("ci", "sa-uid"))
    return world.tokens.issue(bound, audiences or world.tokens.audiences(ACME), 3600)


async def test_token_review(world: World) -> None:
    found = await world.ask("TokenReview", {"token": token(world)})
    assert found["authenticated"] is True
    assert found["audiences"] == world.tokens.audiences(ACME)
    assert found["user"]["username"] == "system:serviceaccount:default:ci"
    assert found["user"]["uid"] == "sa-uid"
    assert found["user"]["groups"][0] == "system:serviceaccounts"


async def test_a_token_for_the_reviewer(world: World) -> None:
    found = await world.ask("TokenReview", {"token": token(world, "vault"), "audiences": ["vault", "x"]})
    assert (found["authenticated"], found["audiences"]) == (True, ["vault"])


async def test_invalid_tokens_are_rejected(world: World) -> None:
    for spec, tenant in (
        ({"token": token(world)}, OTHER),
        ({"token": token(world)}, SYSTEM),
        ({"token": token(world), "audiences": ["vault"]}, ACME),
        ({"token": token(world)[:-3]}, ACME),
        ({"token": "rubbish"}, ACME),
    ):
        found = await world.ask("TokenReview", spec, ANN, tenant)
        assert set(found) == {"authenticated", "error"}
        assert found["authenticated"] is False


async def test_a_review_without_a_token(world: World) -> None:
    with pytest.raises(BadRequest):
        await world.ask("TokenReview", {})


async def test_an_invalid_review_is_rejected(world: World) -> None:
    with pytest.raises(BadRequest):
        await world.ask("Pod", {})
