"""Tokens of OIDC issuers: each makes users of the tenant that trusts the issuer, and of nobody else."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from alcove.api.objects import Object
from alcove.cli.connection import CliConnection, load
from alcove.cli.kubeconfig import BearerToken, render
from alcove.testing.oidc_issuer import OidcIssuer
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PROVIDERS = "/apis/authentication.alcove.io/v1alpha1/identityproviders"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
MAPPINGS = {"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "roles", "prefix": ""}}


@pytest.fixture(scope="module")
def issuers() -> Iterator[dict[str, OidcIssuer]]:
    with OidcIssuer() as ring0, OidcIssuer() as acme, OidcIssuer() as other:
        yield {"ring0": ring0, "acme": acme, "other": other}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuers: dict[str, OidcIssuer]) -> Iterator[LocalServer]:
    directory = tmp_path_factory.mktemp("server")
    configure(directory / "authn.yaml", issuers["ring0"])
    options = ("--authentication-config", str(directory / "authn.yaml"), "--webhook-network", "127.0.0.0/8")
    with LocalServer(directory, *options) as running:
        yield running


def configure(path: Path, *issuers: OidcIssuer) -> None:
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": each.configured("ring0"), "claimMappings": MAPPINGS} for each in issuers],
    }
    path.write_bytes(msgspec.yaml.encode(configuration))


def caller(server: LocalServer, token: str) -> Caller:
    return Caller(server.admin_kubeconfig, token=token)


def who(server: LocalServer, token: str, tenant: str = "") -> ServerResponse:
    prefix = f"/tenants/{tenant}" if tenant else ""
    return caller(server, token).post(f"{prefix}{WHO_AM_I}", REVIEW)


def test_a_token_of_ring0s_issuer_is_a_user_of_ring0_with_the_rights_of_its_roles(
    server: LocalServer, issuers: dict[str, OidcIssuer]
) -> None:
    token = issuers["ring0"].token("ring0", sub="ann", roles=["ops"])
    answer = who(server, token)
    assert answer.status == 201, answer.body
    user = answer.json["status"]["userInfo"]
    assert user["username"] == "ann" and user["groups"] == ["ops", "system:authenticated"]
    assert user["extra"]["alcove/tenant"] == ["system"]
    assert caller(server, token).get("/api/v1/tenants").status == 403
    binding = {
        "metadata": {"name": "ops"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "ops"}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert server.system.post(path, binding).status == 201
    assert caller(server, token).get("/api/v1/tenants").status == 200


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "system:admin"},
        {"roles": ["system:masters"]},
        {"sub": "system:node:n1", "roles": ["system:nodes"]},
        {"aud": "acme"},
        {"exp": int(time.time()) - 5},
    ],
)
def test_no_claim_makes_a_master_or_a_node(
    server: LocalServer, issuers: dict[str, OidcIssuer], claims: dict[str, object]
) -> None:
    for tenant in ("", "system"):
        assert who(server, issuers["ring0"].token("ring0", **claims), tenant).status == 401


def test_a_token_of_an_issuer_that_nobody_trusts_is_refused(
    server: LocalServer, issuers: dict[str, OidcIssuer]
) -> None:
    server.make_tenant("quiet")
    forged = issuers["other"].token("ring0", iss=issuers["ring0"].url)
    for token in (issuers["other"].token("ring0"), forged):
        refused = {tenant: who(server, token, tenant) for tenant in ("", "quiet", "missing", "system")}
        assert {each.status for each in refused.values()} == {401}
        assert refused["quiet"].json["message"] == refused["missing"].json["message"]


def test_a_token_review_knows_it(server: LocalServer, issuers: dict[str, OidcIssuer]) -> None:
    token = issuers["ring0"].token("ring0", sub="reviewed")
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = server.system.post(path, {"spec": {"token": token}}).json["status"]
    assert status["authenticated"] and status["user"]["username"] == "reviewed"
    tenant = server.make_tenant("reviewer")
    assert not tenant.post(path, {"spec": {"token": token}}).json["status"].get("authenticated")


def test_a_changed_file_is_used_and_a_bad_one_is_not(
    server: LocalServer, issuers: dict[str, OidcIssuer]
) -> None:
    path = server.directory / "authn.yaml"
    later = issuers["acme"].token("ring0", sub="later")
    assert who(server, later).status == 401
    configure(path, issuers["ring0"], issuers["acme"])
    wait_until(lambda: who(server, later).status == 201)
    path.write_text("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{}]\n")
    counter = b'reloads_total{status="failure"} 1'
    wait_until(lambda: counter in server.system.get("/metrics").body)
    assert who(server, later).status == 201
    assert "jwt[0].issuer.url" in (server.directory / "log").read_text()
    configure(path, issuers["ring0"])
    wait_until(lambda: who(server, later).status == 401)


def provider(trusted: OidcIssuer, name: str = "sso", audience: str = "acme", **spec: object) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"issuer": trusted.configured(audience), "claimMappings": MAPPINGS, **spec},
    }


@pytest.fixture(scope="module")
def acme(server: LocalServer, issuers: dict[str, OidcIssuer]) -> Caller:
    """A tenant whose administrator has configured its issuer."""
    admin = server.make_tenant("acme")
    made = admin.post(PROVIDERS, provider(issuers["acme"]))
    assert made.status == 201, made.body
    return admin


def test_a_token_of_a_tenants_issuer_is_a_user_of_that_tenant_alone(
    server: LocalServer, issuers: dict[str, OidcIssuer], acme: Caller
) -> None:
    server.make_tenant("bystander")
    token = issuers["acme"].token("acme", sub="admin", roles=["dev"])
    user = who(server, token, "acme").json["status"]["userInfo"]
    assert (user["username"], user["extra"]["alcove/tenant"]) == ("admin", ["acme"])
    ann = caller(server, token)
    assert ann.get("/tenants/acme/api/v1/namespaces/default/configmaps").status == 200
    assert ann.get("/api/v1/tenants/acme/namespaces/default/configmaps").status == 200
    for path in ("/tenants/bystander", "/tenants/missing", "/tenants/system", "/tenants/all", ""):
        for what in ("/api/v1/namespaces", "/api/v1/nodes", "/api/v1/tenants", WHO_AM_I):
            assert ann.get(f"{path}{what}").status == 401, (path, what)
    impersonated = {"impersonate_user": "root", "impersonate_tenant": "system"}
    assert ann.get("/tenants/acme/api/v1/namespaces", **impersonated).status == 403
    masters = {"impersonate_user": "admin", "impersonate_group": "system:masters"}
    assert ann.get("/tenants/bystander/api/v1/namespaces", **masters).status == 401


def test_kubectl_works_with_such_a_token(
    server: LocalServer, issuers: dict[str, OidcIssuer], acme: Caller, tmp_path: Path
) -> None:
    admin = CliConnection(load(server.admin_kubeconfig))
    path = tmp_path / "kubeconfig"
    credential = BearerToken(issuers["acme"].token("acme", sub="admin"))
    path.write_text(render(admin.server, admin.ca_pem, "acme", "sso", credential))
    caller = Caller(path, anonymous=True)
    assert caller.kubectl("auth", "can-i", "*", "*").strip() == "yes"
    assert "namespace/default" in caller.kubectl("get", "namespaces", "-o", "name")


@pytest.mark.parametrize("claims", [{"sub": "system:admin"}, {"roles": ["system:masters"]}, {"aud": "ring0"}])
def test_no_claim_of_a_tenants_issuer_makes_more_than_a_user(
    server: LocalServer, issuers: dict[str, OidcIssuer], acme: Caller, claims: dict[str, object]
) -> None:
    for tenant in ("", "acme", "system"):
        assert who(server, issuers["acme"].token("acme", **claims), tenant).status == 401


def test_a_tenant_that_trusts_another_tenants_issuer_gets_users_of_its_own(
    server: LocalServer, issuers: dict[str, OidcIssuer], acme: Caller
) -> None:
    """Also with ring0's issuer: what it says of ring0's audience stays ring0's."""
    copycat = server.make_tenant("copycat")
    for name, each, audience in (("a", "acme", "acme"), ("r", "ring0", "ring0"), ("o", "ring0", "other")):
        assert copycat.post(PROVIDERS, provider(issuers[each], name, audience)).status == 201
    token = issuers["acme"].token("acme", sub="admin")
    for tenant in ("acme", "copycat"):
        user = who(server, token, tenant).json["status"]["userInfo"]
        assert user["extra"]["alcove/tenant"] == [tenant]
    assert who(server, token).status == 401, "without a tenant in the path, only ring0's issuers count"
    ring0 = who(server, issuers["ring0"].token("ring0", sub="ann"), "copycat")
    assert ring0.status == 403 or ring0.json["status"]["userInfo"]["extra"]["alcove/tenant"] == ["system"]
    own = who(server, issuers["ring0"].token("other", sub="bob"), "copycat").json["status"]["userInfo"]
    assert own["extra"]["alcove/tenant"] == ["copycat"]


def test_ring0_configures_a_tenants_issuer_and_its_removal_ends_its_users(
    server: LocalServer, issuers: dict[str, OidcIssuer]
) -> None:
    server.make_tenant("managed")
    path = f"/apis/authentication.alcove.io/v1alpha1/tenants/managed/{PROVIDERS.rpartition('/')[2]}"
    assert server.system.post(path, provider(issuers["acme"])).status == 201
    token = issuers["acme"].token("acme", sub="someone")
    assert who(server, token, "managed").status == 201
    assert server.system.delete(f"{path}/sso").status == 200
    assert who(server, token, "managed").status == 401


def test_a_writer_of_identity_providers_must_be_able_to_impersonate_everybody(
    server: LocalServer, issuers: dict[str, OidcIssuer], acme: Caller
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["authentication.alcove.io"], "resources": ["*"], "verbs": ["*"]}]
    assert acme.post(f"{rbac}/clusterroles", {"metadata": {"name": "idp"}, "rules": rules}).status == 201
    binding = {
        "metadata": {"name": "idp"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "idp"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}],
    }
    assert acme.post(f"{rbac}/clusterrolebindings", binding).status == 201
    eve = server.as_tenant("acme", "eve")
    refused = eve.post(PROVIDERS, provider(issuers["other"], "evil"))
    assert refused.status == 403 and "impersonate" in refused.json["message"]
    assert eve.patch(f"{PROVIDERS}/sso", {"spec": {"issuer": {"audiences": ["eve"]}}}).status == 403
    assert eve.patch(f"{PROVIDERS}/sso", {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_bad_providers_are_refused_by_field_and_by_number(
    server: LocalServer, issuers: dict[str, OidcIssuer]
) -> None:
    admin = server.make_tenant("strict")
    for spec, field in (
        ({"issuer": {"url": "http://x.example", "audiences": ["a"]}}, "spec.issuer.url"),
        (
            {"claimMappings": {"username": {"expression": "claims.sub +"}}},
            "spec.claimMappings.username.expression",
        ),
        (
            {"claimMappings": {"username": {"claim": "a", "prefix": "system:"}}},
            "spec.claimMappings.username.prefix",
        ),
        ({"userValidationRules": [{"expression": "1"}]}, "spec.userValidationRules[0].expression"),
    ):
        answer = admin.post(PROVIDERS, provider(issuers["acme"], **spec))
        assert answer.status == 422 and field in answer.json["message"], answer.body
    for number in range(8):
        assert admin.post(PROVIDERS, provider(issuers["acme"], f"p{number}")).status == 201
    assert admin.post(PROVIDERS, provider(issuers["acme"], "p8")).status == 403
