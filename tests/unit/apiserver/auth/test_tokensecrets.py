"""Token Secrets are filled when they are written; their token is valid as long as they contain it."""

import base64

import pytest

from alcove.api.errors import Unauthorized
from alcove.api.ids import TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.resources import SECRETS, SERVICE_ACCOUNTS
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.auth.tokensecrets import TYPE, TokenSecretAdmission
from alcove.apiserver.identity import Identity
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
KEYS = SigningKeys(certificates.new_key())
KIND = Kind(
    group="",
    version="v1",
    kind="Secret",
    resource="secrets",
    singular="secret",
    scope=Scope.NAMESPACE,
    schema=SchemaNode(SchemaType.OBJECT),
)


class World:
    def __init__(self) -> None:
        self.reader = MemoryReader()
        self.reader.put(
            ACME, SERVICE_ACCOUNTS, {"metadata": {"name": "ci", "namespace": "default", "uid": "u1"}}
        )
        self.tokens = Tokens(KEYS, self.reader, lambda: 1_800_000_000.0)
        self.plugin = TokenSecretAdmission(self.reader, self.tokens, b"the authority")

    async def write(self, secret: Object) -> Object:
        attributes = Attributes(
            operation=Operation.CREATE,
            kind=KIND,
            tenant=ACME,
            namespace="default",
            name=secret["metadata"]["name"],
            obj=secret,
            identity=Identity(ACME, "admin"),
        )
        assert self.plugin.handles(Operation.CREATE, SECRETS, "")
        await self.plugin.admit(attributes)
        return self.reader.put(ACME, SECRETS, secret)


def secret(account: str = "ci", kind: str = TYPE) -> Object:
    annotations = {"kubernetes.io/service-account.name": account}
    return {"type": kind, "metadata": {"name": "kept", "namespace": "default", "annotations": annotations}}


def token_of(found: Object) -> str:
    return base64.b64decode(found["data"]["token"]).decode()


async def test_is_filled_and_its_token_authenticates() -> None:
    world = World()
    found = await world.write(secret())
    assert base64.b64decode(found["data"]["ca.crt"]) == b"the authority"
    assert base64.b64decode(found["data"]["namespace"]) == b"default"
    assert found["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == "u1"
    assert world.tokens.authenticate(token_of(found)).user == "system:serviceaccount:default:ci"


async def test_its_token_is_not_replaced_while_the_account_is_the_same() -> None:
    world = World()
    first = token_of(await world.write(secret()))
    stored = world.reader.get(ACME, SECRETS, "default", "kept")
    assert stored is not None
    assert token_of(await world.write(stored)) == first


async def test_an_account_made_anew_gets_a_new_token() -> None:
    world = World()
    first = token_of(await world.write(secret()))
    world.reader.put(
        ACME, SERVICE_ACCOUNTS, {"metadata": {"name": "ci", "namespace": "default", "uid": "u2"}}
    )
    stored = world.reader.get(ACME, SECRETS, "default", "kept")
    assert stored is not None
    second = token_of(await world.write(stored))
    assert second != first
    assert world.tokens.authenticate(second).uid == "u2"
    with pytest.raises(Unauthorized):
        world.tokens.authenticate(first)


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        ({}, {}, "no longer contains it"),
        ({"token": base64.b64encode(b"another").decode()}, {}, "no longer contains it"),
        (None, {"kubernetes.io/legacy-token-invalid-since": "2027-01-01"}, "marked invalid"),
    ],
)
async def test_a_token_that_its_secret_no_longer_holds_is_refused(
    data: Object | None, labels: dict[str, str], message: str
) -> None:
    world = World()
    found = await world.write(secret())
    token = token_of(found)
    assert world.tokens.authenticate(token)
    metadata = {**found["metadata"], "labels": labels}
    changed = {**found, "metadata": metadata, "data": found["data"] if data is None else data}
    world.reader.put(ACME, SECRETS, changed)
    with pytest.raises(Unauthorized, match=message):
        world.tokens.authenticate(token)


async def test_a_secret_without_an_account_or_of_another_type_is_left_alone() -> None:
    world = World()
    assert "data" not in await world.write(secret(account="nobody"))
    assert "data" not in await world.write(secret(kind="Opaque"))


def test_handles_writes_of_secrets_only() -> None:
    plugin = World().plugin
    assert plugin.handles(Operation.UPDATE, SECRETS, "")
    assert not plugin.handles(Operation.DELETE, SECRETS, "")
    assert not plugin.handles(Operation.CREATE, SERVICE_ACCOUNTS, "")
