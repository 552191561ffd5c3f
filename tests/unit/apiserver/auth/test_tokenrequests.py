"""TokenRequest: lifetimes, audiences, bound objects, and invalid requests."""

import pytest

from alcove.api.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.auth.tokenrequests import LIFETIME_SECONDS_MAX, TokenRequests
from alcove.apiserver.auth.tokens import Tokens
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
NOW = 1_800_000_000.0
KEYS = SigningKeys(certificates.new_key())


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.reader = MemoryReader()
        for tenant in (ACME, SYSTEM):
            self.put(tenant, "default", "ci", "sa-uid")
        pod = {"metadata": {"name": "p", "namespace": "default", "uid": "pod-uid"}}
        self.reader.put(ACME, PODS, {**pod, "spec": {"serviceAccountName": "ci", "nodeName": "n"}})
        self.reader.put(
            ACME, SECRETS, {"metadata": {"name": "s", "namespace": "default", "uid": "secret-uid"}}
        )
        self.reader.put(SYSTEM, NODES, {"metadata": {"name": "n", "uid": "node-uid"}})
        self.tokens = Tokens(KEYS, self.reader, lambda: self.now)
        self.requests = TokenRequests(self.reader, self.tokens, lambda: self.now)
        self.warnings: list[str] = []

    def put(self, tenant: TenantId, namespace: str, name: str, uid: str) -> None:
        self.reader.put(
            tenant, SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": namespace, "uid": uid}}
        )

    def ask(self, spec: Object | None = None, tenant: TenantId = ACME, **metadata: str) -> Object:
        request: Object = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": metadata,
        }
        if spec is not None:
            request["spec"] = spec
        return self.requests.create(tenant, "default", "ci", request, self.warnings)


@pytest.fixture
def world() -> World:
    return World()


def test_an_empty_request_gets_an_hour_at_this_server(world: World) -> None:
    answer = world.ask()
    assert answer["spec"] == {"audiences": world.tokens.audiences(ACME), "expirationSeconds": 3600}
    assert answer["status"]["expirationTimestamp"] == "2027-01-15T09:00:00Z"
    assert answer["metadata"]["name"] == "ci" and answer["metadata"]["uid"] == "sa-uid"
    assert world.tokens.authenticate(answer["status"]["token"]).user == "system:serviceaccount:default:ci"


def test_the_clients_object_is_left_alone(world: World) -> None:
    request: Object = {"spec": {}}
    world.requests.create(ACME, "default", "ci", request, [])
    assert request == {"spec": {}}


def test_a_token_for_another_audience_is_rejected(world: World) -> None:
    token = world.ask({"audiences": ["vault"]})["status"]["token"]
    with pytest.raises(ApiError, match="another audience"):
        world.tokens.authenticate(token)


@pytest.mark.parametrize("seconds", [599, 0, -1, (1 << 32) + 1, "3600"])
def test_lifetimes_out_of_bounds(world: World, seconds: object) -> None:
    with pytest.raises(Invalid, match=r"spec\.expirationSeconds"):
        world.ask({"expirationSeconds": seconds})


def test_too_long_a_lifetime_is_shortened_with_a_warning(world: World) -> None:
    answer = world.ask({"expirationSeconds": LIFETIME_SECONDS_MAX + 1})
    assert answer["spec"]["expirationSeconds"] == LIFETIME_SECONDS_MAX
    assert world.warnings == ["requested expiration of 31536001 seconds shortened to 31536000 seconds"]


def test_a_pods_token_is_invalid_after_the_pod_is_deleted(world: World) -> None:
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "pod-uid"}
    token = world.ask({"boundObjectRef": ref})["status"]["token"]
    identity = world.tokens.authenticate(token)
    assert identity.extra["authentication.kubernetes.io/node-name"] == ("n",)
    world.reader.remove(ACME, PODS, "default", "p")
    with pytest.raises(ApiError, match="does not exist"):
        world.tokens.authenticate(token)


def test_the_token_of_a_pods_volume_is_valid_longer_than_its_stated_hour(world: World) -> None:
    answer = world.ask({"boundObjectRef": {"kind": "Pod", "name": "p"}, "expirationSeconds": 3607})
    assert answer["status"]["expirationTimestamp"] == "2027-01-15T09:00:07Z"
    world.now = NOW + 86_400
    assert world.tokens.authenticate(answer["status"]["token"])
    assert world.tokens.stale_uses == 1


def test_binds_to_secrets_and_in_ring0_to_nodes(world: World) -> None:
    secret = world.ask({"boundObjectRef": {"kind": "Secret", "name": "s"}})["status"]["token"]
    node = world.ask({"boundObjectRef": {"kind": "Node", "name": "n"}}, SYSTEM)["status"]["token"]
    assert world.tokens.authenticate(secret) and world.tokens.authenticate(node)
    world.reader.remove(ACME, SECRETS, "default", "s")
    world.reader.remove(SYSTEM, NODES, "", "n")
    for token in (secret, node):
        with pytest.raises(ApiError, match="does not exist"):
            world.tokens.authenticate(token)


@pytest.mark.parametrize(
    ("ref", "error", "message"),
    [
        ({"kind": "Pod", "name": "missing"}, NotFound, 'pods "missing" not found'),
        ({"kind": "Secret", "name": "missing"}, NotFound, 'secrets "missing" not found'),
        ({"kind": "Pod", "name": "p", "uid": "older"}, Conflict, "is not that of the object"),
        (
            {"kind": "ConfigMap", "name": "p"},
            BadRequest,
            "cannot bind token to object of type v1, Kind=ConfigMap",
        ),
        ({"kind": "Pod", "apiVersion": "apps/v1", "name": "p"}, BadRequest, "apps/v1, Kind=Pod"),
    ],
)
def test_bindings_that_are_refused(world: World, ref: Object, error: type[ApiError], message: str) -> None:
    with pytest.raises(error, match=message):
        world.ask({"boundObjectRef": ref})


@pytest.mark.parametrize("name", ["n", "missing"])
def test_a_token_request_does_not_reveal_which_nodes_exist(world: World, name: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        world.ask({"boundObjectRef": {"kind": "Node", "name": name}})
    assert refusal.value.message == "cannot bind token to object of type v1, Kind=Node"


def test_a_pod_of_another_account_is_refused(world: World) -> None:
    world.put(ACME, "default", "other", "u")
    with pytest.raises(BadRequest, match="to a pod of another one"):
        world.requests.create(
            ACME, "default", "other", {"spec": {"boundObjectRef": {"kind": "Pod", "name": "p"}}}, []
        )


def test_an_account_that_is_not_there(world: World) -> None:
    with pytest.raises(NotFound, match='serviceaccounts "nobody" not found'):
        world.requests.create(ACME, "default", "nobody", {}, [])
    with pytest.raises(NotFound):
        world.requests.create(TenantId("other"), "default", "ci", {}, [])


@pytest.mark.parametrize(
    ("metadata", "error"),
    [({"name": "x"}, Invalid), ({"namespace": "x"}, Invalid), ({"uid": "x"}, Conflict)],
)
def test_metadata_that_is_not_the_accounts(
    world: World, metadata: dict[str, str], error: type[ApiError]
) -> None:
    with pytest.raises(error):
        world.ask({}, ACME, **metadata)
