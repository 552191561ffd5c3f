"""Every kind, verb and path form, for a tenant that is not the caller's: forbidden, and nothing is revealed.

The answer for another tenant that exists must equal, to the byte, the answer for one that does not.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from alcove.api import registry
from alcove.api.kind import Kind, Scope
from alcove.testing.server import Caller, LocalServer, ServerResponse

KINDS = registry.load().all()
FORMS = ("full", "prefix")
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
ON_OBJECTS = ("get", "update", "patch", "delete")


@pytest.fixture(scope="module")
def pair(server: LocalServer) -> tuple[Caller, str, str]:
    """An attacker's connection, the name of a tenant full of secrets, and of one that does not exist."""
    server.make_tenant("victim")
    for path, body in _secret_objects():
        answer = server.system.post(path, body)
        assert answer.status == 201, answer.body
    return server.make_tenant("attacker"), "victim", "nobody"


def _secret_objects() -> Iterator[tuple[str, dict[str, object]]]:
    base = "/api/v1/tenants/victim/namespaces/default"
    yield f"{base}/secrets", {"metadata": {"name": "target"}, "stringData": {"password": "hunter2-canary"}}
    yield f"{base}/configmaps", {"metadata": {"name": "target"}, "data": {"key": "hunter2-canary"}}
    pod = {"containers": [{"name": "c", "image": "hunter2-canary"}]}
    yield f"{base}/pods", {"metadata": {"name": "target"}, "spec": pod}


def path_of(kind: Kind, verb: str, tenant: str, form: str, subresource: str = "") -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    within = "/namespaces/default" if kind.scope is Scope.NAMESPACE else ""
    what = f"{within}/{kind.resource}"
    if verb in ON_OBJECTS or subresource:
        what += "/target"
    if subresource:
        what += f"/{subresource}"
    if verb == "watch":
        what += "?watch=true&timeoutSeconds=1"
    return f"{root}/tenants/{tenant}{what}" if form == "full" else f"/tenants/{tenant}{root}{what}"


def body_of(kind: Kind, verb: str) -> dict[str, object] | None:
    if verb in ("create", "update"):
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "target"}}
    return {"metadata": {"labels": {"a": "b"}}} if verb == "patch" else None


def ask(caller: Caller, kind: Kind, verb: str, path: str) -> ServerResponse:
    headers = {"content_type": "application/merge-patch+json"} if verb == "patch" else {}
    return caller.request(METHODS[verb], path, body_of(kind, verb), **headers)


def check_refused(
    caller: Caller, kind: Kind, verb: str, paths: tuple[str, str], names: tuple[str, str]
) -> None:
    real, missing = (ask(caller, kind, verb, path) for path in paths)
    assert real.status == 403, (paths[0], real.status, real.body)
    status = real.json
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Forbidden", 403)
    assert b"hunter2-canary" not in real.body
    assert real.body.replace(names[0].encode(), b"X") == missing.body.replace(names[1].encode(), b"X")
    # The id differs for every request; the length follows the name.
    own = {"content-length": "", "audit-id": ""}
    assert real.headers | own == missing.headers | own


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}.{kind.group}.{kind.version}")
def test_another_tenant_is_forbidden_and_reveals_nothing(pair: tuple[Caller, str, str], kind: Kind) -> None:
    caller, victim, nobody = pair
    for verb, form in product(METHODS, FORMS):
        paths = (path_of(kind, verb, victim, form), path_of(kind, verb, nobody, form))
        check_refused(caller, kind, verb, paths, (victim, nobody))
    for sub in kind.subresources:
        for verb in set(sub.verbs) & set(METHODS):
            paths = (
                path_of(kind, verb, victim, "full", sub.name),
                path_of(kind, verb, nobody, "full", sub.name),
            )
            check_refused(caller, kind, verb, paths, (victim, nobody))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}.{kind.group}.{kind.version}")
def test_all_tenants_and_system_are_forbidden(pair: tuple[Caller, str, str], kind: Kind) -> None:
    caller, _, _ = pair
    for tenant, verb, form in product(("all", "system"), METHODS, FORMS):
        path = path_of(kind, verb, tenant, form)
        answer = ask(caller, kind, verb, path)
        assert answer.status == 403, (path, answer.status, answer.body)
        assert b"hunter2-canary" not in answer.body


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.scope is Scope.RING0],
    ids=lambda kind: f"{kind.resource}.{kind.group}",
)
def test_ring0_kinds_are_not_there_for_tenants(pair: tuple[Caller, str, str], kind: Kind) -> None:
    caller, _, _ = pair
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    answer = caller.get(f"{root}/{kind.resource}")
    if str(kind.group_resource) == "nodes":
        assert (answer.status, answer.json["items"]) == (200, [])
    else:
        assert answer.status in (403, 404), answer.body
    for verb in ("create", "delete", "update", "patch"):
        path = f"{root}/{kind.resource}" + ("" if verb == "create" else "/target")
        assert ask(caller, kind, verb, path).status in (403, 404, 405), (verb, path)
    resources = caller.get(root).json.get("resources", []) if caller.get(root).status == 200 else []
    verbs = [each["verbs"] for each in resources if each["name"] == kind.resource]
    assert verbs in ([], [["get", "list", "watch"]])


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/openapi/v3/api/v1"]
)
def test_discovery_of_another_tenant_is_ones_own(pair: tuple[Caller, str, str], path: str) -> None:
    """A refused discovery made kubectl say `unknown` five times, and not which request was forbidden."""
    caller, victim, nobody = pair
    own = caller.get(path)
    assert own.status == 200
    for tenant in (victim, nobody, "system", "all"):
        answer = caller.get(f"/tenants/{tenant}{path}")
        assert answer.status == 200
        assert answer.body.replace(f"/tenants/{tenant}/openapi".encode(), b"/openapi") == own.body


@pytest.mark.parametrize("path", ["/metrics", "/apis/none.example/v1", "/logs", ""])
def test_other_paths_of_another_tenant_reveal_nothing(pair: tuple[Caller, str, str], path: str) -> None:
    caller, victim, nobody = pair
    there, nowhere = (caller.get(f"/tenants/{tenant}{path}") for tenant in (victim, nobody))
    assert there.status in (403, 404)
    assert there.body.replace(victim.encode(), b"") == nowhere.body.replace(nobody.encode(), b"")


def test_an_object_cannot_be_sent_into_another_tenant(pair: tuple[Caller, str, str]) -> None:
    caller, victim, _ = pair
    body = {"metadata": {"name": "smuggled", "tenant": victim}, "data": {}}
    answer = caller.post("/api/v1/namespaces/default/configmaps", body)
    assert answer.status == 400 and answer.json["message"] == (
        f'the tenant from the provided object "{victim}" does not match the tenant "attacker". '
        f"You must pass '--tenant={victim}' to perform this operation."
    )
    assert caller.get("/api/v1/namespaces/default/configmaps/smuggled").status == 404


def test_impersonation_stays_in_the_tenant(pair: tuple[Caller, str, str]) -> None:
    caller, victim, _ = pair
    path = "/api/v1/namespaces/default/secrets/target"
    for headers in (
        {"impersonate_user": "admin", "impersonate_tenant": victim},
        {"impersonate_user": "admin", "impersonate_tenant": "system", "impersonate_group": "system:masters"},
    ):
        assert caller.get(path, **headers).status == 403
    # As another user of one's own tenant, one still sees only that tenant.
    assert caller.get(path, impersonate_user="admin").status == 404


def test_two_tenants_named_in_one_path(pair: tuple[Caller, str, str]) -> None:
    caller, victim, _ = pair
    for path in (
        f"/tenants/attacker/api/v1/tenants/{victim}/namespaces/default/secrets",
        f"/tenants/{victim}/api/v1/tenants/attacker/namespaces/default/secrets",
        f"/api/v1/tenants/attacker/tenants/{victim}/namespaces/default/secrets",
        f"/tenants/attacker/tenants/{victim}/api/v1/namespaces/default/secrets",
        f"/tenants/attacker/../{victim}/api/v1/namespaces/default/secrets",
        f"/tenants/attacker/api/v1/namespaces/..%2f..%2ftenants%2f{victim}/secrets",
        f"//tenants/{victim}/api/v1/namespaces/default/secrets",
    ):
        answer = caller.get(path)
        assert answer.status in (400, 403, 404), (path, answer.status)
        assert b"hunter2" not in answer.body


def test_a_watch_over_ones_own_tenant_shows_no_other(
    pair: tuple[Caller, str, str], server: LocalServer
) -> None:
    caller, _, _ = pair
    revision = caller.get("/api/v1/configmaps").json["metadata"]["resourceVersion"]
    base = "/api/v1/tenants/{}/namespaces/default/configmaps"
    server.system.post(
        base.format("victim"), {"metadata": {"name": "later"}, "data": {"a": "hunter2-canary"}}
    )
    server.system.post(base.format("attacker"), {"metadata": {"name": "mine"}})
    answer = caller.get(f"/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion={revision}")
    assert b'"mine"' in answer.body and b"hunter2" not in answer.body and b'"later"' not in answer.body
