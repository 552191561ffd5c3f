"""Service account tokens are valid as long as the objects that they are bound to exist; forged ones never
are."""

from collections.abc import Callable

import orjson
import pytest

from alcove.api import meta
from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.signingkeys import ForeignKeys, SigningKeys, VerifiedPayload
from alcove.apiserver.auth.tokens import REFUSED_SECONDS, BoundObject, TokenObjectRef, Tokens
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")
NOW = 1_800_000_000.0
KEYS = SigningKeys(certificates.new_key())
ACCOUNT = TokenObjectRef("builder", "sa-uid")
BOUND = BoundObject(ACME, "ci", ACCOUNT)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    reader.put(ACME, SERVICE_ACCOUNTS, obj("builder", "sa-uid"))
    reader.put(ACME, PODS, obj("pod-1", "pod-uid"))
    reader.put(ACME, SECRETS, obj("kept", "secret-uid"))
    reader.put(SYSTEM, NODES, obj("node-1", "node-uid", ""))
    return reader


@pytest.fixture
def tokens(reader: MemoryReader, clock: Clock) -> Tokens:
    return Tokens(KEYS, reader, clock)


def obj(name: str, uid: str, namespace: str = "ci", **metadata: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid, **metadata}}


def test_an_issued_token_is_its_accounts_identity(tokens: Tokens) -> None:
    bound = BoundObject(
        ACME, "ci", ACCOUNT, pod=TokenObjectRef("pod-1", "pod-uid"), node=TokenObjectRef("node-1", "node-uid")
    )
    found = tokens.authenticate(tokens.issue(bound, tokens.audiences(ACME), 3600))
    assert (found.tenant, found.user, found.uid) == ("acme", "system:serviceaccount:ci:builder", "sa-uid")
    assert found.groups == ("system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated")
    extra = {
        key.removeprefix("authentication.kubernetes.io/"): values[0] for key, values in found.extra.items()
    }
    assert extra.pop("credential-id").startswith("JTI=")
    assert extra == {
        "pod-name": "pod-1",
        "pod-uid": "pod-uid",
        "node-name": "node-1",
        "node-uid": "node-uid",
    }


def test_the_claims_are_those_of_kubernetes_and_the_tenant(tokens: Tokens) -> None:
    claims = orjson.loads(KEYS.verify(tokens.issue(BOUND, ["vault"], 600)).payload)
    jti = claims.pop("jti")
    assert len(jti) == 36
    assert claims == {
        "iss": "https://kubernetes.default.svc.cluster.local/tenants/acme",
        "sub": "system:serviceaccount:ci:builder",
        "aud": ["vault"],
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 600,
        "kubernetes.io": {
            "tenant": "acme",
            "namespace": "ci",
            "serviceaccount": {"name": "builder", "uid": "sa-uid"},
        },
    }


def test_two_tenants_same_account_are_two_issuers(tokens: Tokens, reader: MemoryReader) -> None:
    reader.put(OTHER, SERVICE_ACCOUNTS, obj("builder", "other-uid"))
    theirs = tokens.issue(
        BoundObject(OTHER, "ci", TokenObjectRef("builder", "other-uid")), tokens.audiences(OTHER), 3600
    )
    assert tokens.authenticate(theirs).tenant == "other"
    assert tokens.issuer(ACME) != tokens.issuer(OTHER)


def test_a_token_expires_exactly(tokens: Tokens, clock: Clock) -> None:
    token = tokens.issue(BOUND, tokens.audiences(ACME), 600)
    clock.now = NOW + 599.9
    assert tokens.authenticate(token)
    clock.now = NOW + 600
    with pytest.raises(Unauthorized, match="expired at 2027-01-15T08:10:00Z; get a new one"):
        tokens.authenticate(token)


BINDINGS: dict[str, tuple[BoundObject, TenantId, GroupResource, Object]] = {
    "service account": (BOUND, ACME, SERVICE_ACCOUNTS, obj("builder", "sa-uid")),
    "pod": (
        BoundObject(ACME, "ci", ACCOUNT, pod=TokenObjectRef("pod-1", "pod-uid")),
        ACME,
        PODS,
        obj("pod-1", "pod-uid"),
    ),
    "secret": (
        BoundObject(ACME, "ci", ACCOUNT, secret=TokenObjectRef("kept", "secret-uid")),
        ACME,
        SECRETS,
        obj("kept", "secret-uid"),
    ),
    "node": (
        BoundObject(ACME, "ci", ACCOUNT, node=TokenObjectRef("node-1", "node-uid")),
        SYSTEM,
        NODES,
        obj("node-1", "node-uid", ""),
    ),
}


@pytest.mark.parametrize("kind", BINDINGS)
def test_a_token_is_invalid_without_its_bound_object(
    tokens: Tokens, reader: MemoryReader, clock: Clock, kind: str
) -> None:
    bound, tenant, resource, found = BINDINGS[kind]
    metadata = found["metadata"]
    token = tokens.issue(bound, tokens.audiences(ACME), 3600)
    assert tokens.authenticate(token)
    reader.remove(tenant, resource, metadata["namespace"], metadata["name"])
    with pytest.raises(Unauthorized, match="does not exist"):
        tokens.authenticate(token)
    reader.put(tenant, resource, {"metadata": {**metadata, "uid": "made anew"}})
    with pytest.raises(Unauthorized, match="does not exist"):
        tokens.authenticate(token)
    deleted = {**metadata, "deletionTimestamp": meta.format_time(NOW + 30)}
    reader.put(tenant, resource, {"metadata": deleted})
    assert tokens.authenticate(token)
    clock.now = NOW + 30 + 61
    with pytest.raises(Unauthorized, match="is being deleted"):
        tokens.authenticate(token)


def test_an_account_of_the_same_name_elsewhere_does_not_keep_it_alive(
    tokens: Tokens, reader: MemoryReader
) -> None:
    token = tokens.issue(BOUND, tokens.audiences(ACME), 3600)
    reader.put(OTHER, SERVICE_ACCOUNTS, obj("builder", "sa-uid"))
    reader.put(ACME, SERVICE_ACCOUNTS, obj("builder", "sa-uid", "elsewhere"))
    reader.remove(ACME, SERVICE_ACCOUNTS, "ci", "builder")
    with pytest.raises(Unauthorized):
        tokens.authenticate(token)


def test_stale_uses_are_counted(tokens: Tokens, clock: Clock) -> None:
    bound = BoundObject(ACME, "ci", ACCOUNT, pod=TokenObjectRef("pod-1", "pod-uid"), warnafter=int(NOW) + 100)
    token = tokens.issue(bound, tokens.audiences(ACME), 3600)
    tokens.authenticate(token)
    clock.now = NOW + 101
    tokens.authenticate(token)
    assert tokens.stale_uses == 1


GOOD: Object = {
    "iss": "https://kubernetes.default.svc.cluster.local/tenants/acme",
    "sub": "system:serviceaccount:ci:builder",
    "aud": ["https://kubernetes.default.svc.cluster.local/tenants/acme"],
    "iat": int(NOW),
    "nbf": int(NOW),
    "exp": int(NOW) + 3600,
    "jti": "1",
    "kubernetes.io": {
        "tenant": "acme",
        "namespace": "ci",
        "serviceaccount": {"name": "builder", "uid": "sa-uid"},
    },
}


def changed(**claims: object) -> bytes:
    return orjson.dumps({**GOOD, **claims})


def private(**claims: object) -> bytes:
    return changed(**{"kubernetes.io": {**GOOD["kubernetes.io"], **claims}})


def without(claim: str) -> bytes:
    return orjson.dumps({key: value for key, value in GOOD.items() if key != claim})


# All signed with the server's own key: what a signature cannot excuse.
ATTACKS: dict[str, tuple[bytes, str]] = {
    "another issuer": (changed(iss="https://evil.example.com/tenants/acme"), "another issuer"),
    "another tenant's issuer": (
        changed(iss="https://kubernetes.default.svc.cluster.local/tenants/other"),
        "another issuer",
    ),
    "the tenant changed": (private(tenant="system"), "another issuer"),
    "no tenant": (private(tenant=""), "claims"),
    "tenant left out": (
        changed(
            **{"kubernetes.io": {"namespace": "ci", "serviceaccount": {"name": "builder", "uid": "sa-uid"}}}
        ),
        "claims",
    ),
    "every tenant": (private(tenant="all"), "claims"),
    "a tenant that is no label": (private(tenant="acme/../system"), "claims"),
    "another subject": (changed(sub="system:serviceaccount:kube-system:admin"), "subject is not"),
    "a user's subject": (changed(sub="admin"), "subject is not"),
    "another audience": (changed(aud=["vault"]), "another audience"),
    "another tenant's audience": (
        changed(aud=["https://kubernetes.default.svc.cluster.local/tenants/other"]),
        "another audience",
    ),
    "no audience": (changed(aud=[]), "another audience"),
    "audience of another type": (changed(aud={"a": 1}), "claims"),
    "expired": (changed(exp=int(NOW) - 1), "expired"),
    "never expiring": (without("exp"), "neither an expiry nor a Secret"),
    "not valid yet": (changed(nbf=int(NOW) + 61), "not valid yet"),
    "from the future": (changed(iat=int(NOW) + 61), "not valid yet"),
    "expiry of another type": (changed(exp="never"), "claims"),
    "no account uid": (private(serviceaccount={"name": "builder"}), "neither an expiry nor a Secret"),
    "another account's uid": (private(serviceaccount={"name": "builder", "uid": "x"}), "does not exist"),
    "an account that is not": (
        changed(
            sub="system:serviceaccount:ci:nobody",
            **{"kubernetes.io": {**GOOD["kubernetes.io"], "serviceaccount": {"name": "nobody", "uid": "u"}}},
        ),
        "does not exist",
    ),
    "no private claims": (without("kubernetes.io"), "claims"),
    "not an object": (b"[]", "claims"),
    "not JSON": (b"\xff", "claims"),
}


def test_the_unmodified_attack_pattern_is_accepted(tokens: Tokens) -> None:
    assert tokens.authenticate(KEYS.sign(orjson.dumps(GOOD)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_refused(tokens: Tokens, attack: str) -> None:
    payload, message = ATTACKS[attack]
    for _ in range(2):  # The second time from memory.
        with pytest.raises(Unauthorized, match=message):
            tokens.authenticate(KEYS.sign(payload))


def test_another_servers_token_is_refused(tokens: Tokens, reader: MemoryReader, clock: Clock) -> None:
    theirs = Tokens(SigningKeys(certificates.new_key()), reader, clock)
    with pytest.raises(Unauthorized, match="key that is not this server's"):
        tokens.authenticate(theirs.issue(BOUND, theirs.audiences(ACME), 3600))


class CountingKeys(SigningKeys):
    verified = 0

    def verify(self, token: str, foreign: ForeignKeys = lambda _id: None) -> VerifiedPayload:
        self.verified += 1
        return super().verify(token, foreign)


def test_a_signature_is_checked_once_whether_good_or_bad(reader: MemoryReader, clock: Clock) -> None:
    keys = CountingKeys(certificates.new_key())
    tokens = Tokens(keys, reader, clock)
    good = tokens.issue(BOUND, tokens.audiences(ACME), 3600)
    for _ in range(3):
        tokens.authenticate(good)
    assert keys.verified == 1
    attempts: list[Callable[[], object]] = [lambda: tokens.authenticate(good[:-2])] * 3
    for attempt in attempts:
        with pytest.raises(Unauthorized):
            attempt()
    assert keys.verified == 2
    clock.now += REFUSED_SECONDS
    with pytest.raises(Unauthorized):
        tokens.authenticate(good[:-2])
    assert keys.verified == 3


def test_the_cache_is_bounded(reader: MemoryReader, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alcove.apiserver.auth.tokens.REMEMBERED_MAX", 2)
    keys = CountingKeys(certificates.new_key())
    tokens = Tokens(keys, reader, clock)
    made = [tokens.issue(BOUND, tokens.audiences(ACME), 3600) for _ in range(3)]
    tokens.authenticate(made[0])
    tokens.authenticate(made[1])
    tokens.authenticate(made[0])
    tokens.authenticate(made[2])  # Forgets the one used longest ago.
    assert keys.verified == 3
    tokens.authenticate(made[0])
    assert keys.verified == 3
    tokens.authenticate(made[1])
    assert keys.verified == 4


def test_an_error_does_not_contain_the_token(tokens: Tokens) -> None:
    token = KEYS.sign(changed(aud=["vault"]))
    with pytest.raises(Unauthorized) as refusal:
        tokens.authenticate(token)
    assert token not in refusal.value.message
    assert token.split(".")[2] not in repr(refusal.value.__cause__)
