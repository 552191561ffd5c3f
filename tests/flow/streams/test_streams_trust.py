"""Who may have which stream, and who believes whom on the way."""

import asyncio
import http.client
import ssl
from functools import partial
from itertools import product

import orjson
import pytest

from alcove.api.node_api import network_path, pod_path
from alcove.api.objects import Object
from alcove.testing.local import whole_lines
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import Caller, LocalServer, wait_until
from alcove.testing.webhook_server import WebhookServer, allowed, denied, patched

pytestmark = [pytest.mark.root]

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "sec_websocket_version": "13",
    "sec_websocket_protocol": "v5.channel.k8s.io",
}
ASKED = {
    "log": "",
    "exec": "command=true&stdout=true",
    "attach": "stdout=true",
    "portforward": "ports=80",
}


def ask(caller: Caller, path: str, verb: str) -> tuple[int, str]:
    headers = UPGRADE if verb != "log" else {}
    answer = caller.get(f"{path}/{verb}?{ASKED[verb]}", **headers)
    return answer.status, answer.body.decode()


@pytest.mark.parametrize("verb", ASKED)
async def test_no_other_tenant_gets_a_stream_or_learns_anything(
    rig: NodeRig, server: LocalServer, verb: str
) -> None:
    await rig.pod("acme", "secret", [{"name": "main", "command": ["sh", "-c", "echo hush; sleep 1000"]}])
    beta = server.as_tenant("beta")
    forms = (
        "/api/v1/tenants/{}/namespaces/default/pods/{}",
        "/tenants/{}/api/v1/namespaces/default/pods/{}",
    )
    for form in forms:
        answers = {ask(beta, form.format(*each), verb) for each in product(("acme",), ("secret", "missing"))}
        codes = {code for code, _ in answers}
        assert codes == {403}
        assert len({text.replace("missing", "secret") for _, text in answers}) == 1
    code, text = ask(beta, "/api/v1/namespaces/default/pods/secret", verb)
    assert (code, "hush" in text) == (404, False)


async def test_equal_names_of_two_tenants_are_two_pods(rig: NodeRig, server: LocalServer) -> None:
    for tenant in ("acme", "beta"):
        script = f"echo I am of {tenant}; sleep 1000"
        pod = await rig.pod(tenant, "same", [{"name": "main", "command": ["sh", "-c", script]}])
        await asyncio.to_thread(wait_until, partial(rig.lab.lines, pod.containers["main"].id))
    for tenant in ("acme", "beta"):
        caller = server.as_tenant(tenant)
        assert (await rig.kubectl(caller, "logs", "same")).out == f"I am of {tenant}\n"
        done = await rig.kubectl(caller, "exec", "same", "--", "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline")
        assert f"I am of {tenant}" in done.out or done.code == 0
        other = {"acme": "beta", "beta": "acme"}[tenant]
        assert f"I am of {other}" not in done.out


async def test_roles_decide(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "ruled", [{"name": "main"}])
    acme = server.as_tenant("acme")
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for user, role in (("viewer", "view"), ("editor", "edit")):
        binding = {
            "metadata": {"name": f"{user}-binding"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        assert acme.post(f"{rbac}/clusterrolebindings", binding).status in (201, 409)
    viewer, editor = server.as_tenant("acme", "viewer"), server.as_tenant("acme", "editor")
    assert (await rig.kubectl(viewer, "logs", "ruled")).code == 0
    assert "cannot create resource" in (await rig.kubectl(viewer, "exec", "ruled", "--", "true")).errors
    assert (await rig.kubectl(editor, "exec", "ruled", "--", "true")).code == 0


async def test_reading_rights_run_no_commands_by_websocket(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "guarded", [{"name": "main"}])
    acme = server.as_tenant("acme")
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": ["get"]}]
    assert acme.post(f"{rbac}/clusterroles", {"metadata": {"name": "getter"}, "rules": rules}).status == 201
    binding = {
        "metadata": {"name": "getter"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "getter"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "getter"}],
    }
    assert acme.post(f"{rbac}/clusterrolebindings", binding).status == 201
    getter = server.as_tenant("acme", "getter")
    code, text = ask(getter, "/api/v1/namespaces/default/pods/guarded", "exec")
    assert code == 403
    assert 'cannot create resource "pods/exec"' in orjson.loads(text)["message"].replace("\\", "")


async def test_a_policy_of_the_tenants_own_is_asked(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("beta", "policed", [{"name": "main"}])
    beta = server.as_tenant("beta")
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"], "operations": ["CONNECT"],
    }  # fmt: skip
    policy = {
        "metadata": {"name": "no-shells"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": "!('sh' in object.command)", "message": "no shells here"},
            ],
        },
    }
    answer = beta.post(f"{group}/validatingadmissionpolicies", policy)
    assert answer.status == 201, answer.body
    binding = {
        "metadata": {"name": "no-shells"},
        "spec": {"policyName": "no-shells", "validationActions": ["Deny"]},
    }
    assert beta.post(f"{group}/validatingadmissionpolicybindings", binding).status == 201
    refused = await rig.kubectl(beta, "exec", "policed", "--", "sh", "-c", "true")
    assert "no shells here" in refused.errors
    assert (await rig.kubectl(beta, "exec", "policed", "--", "true")).code == 0


async def test_webhooks_see_what_is_asked_for_and_may_refuse_it(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("beta", "hooked", [{"name": "main"}])
    beta = server.as_tenant("beta")

    def respond(path: str, review: Object) -> Object:
        request = review["request"]
        assert (request["kind"]["kind"], request["operation"]) == ("PodExecOptions", "CONNECT")
        assert (request["subResource"], request["name"]) == ("exec", "hooked")
        if path == "/change":
            change = {"op": "replace", "path": "/command/1", "value": "changed"}
            return patched(review, change) if request["object"]["command"][0] == "echo" else allowed(review)
        return (
            denied(review, message="not this")
            if "forbidden" in request["object"]["command"]
            else allowed(review)
        )

    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
    ]
    common = {"rules": rules, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    with WebhookServer(respond) as webhook:
        for kind, path in (("mutating", "/change"), ("validating", "/check")):
            hook = {"name": "exec.example.com", "clientConfig": webhook.client(path), **common}
            body = {"metadata": {"name": "exec-hooks"}, "webhooks": [hook]}
            where = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
            assert beta.post(where, body).status == 201
        assert (await rig.kubectl(beta, "exec", "hooked", "--", "printf", "asked")).out == "asked"
        changed = await rig.kubectl(beta, "exec", "hooked", "--", "echo", "asked")
        assert changed.out == "changed\n"
        refused = await rig.kubectl(beta, "exec", "hooked", "--", "test", "forbidden")
        assert "not this" in refused.errors
        for kind in ("mutating", "validating"):
            where = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/exec-hooks"
            assert beta.delete(where).status == 200


async def test_mistakes_are_reported_in_kubernetes_words(rig: NodeRig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    await rig.pod("acme", "two", [{"name": "one"}, {"name": "other"}])
    path = "/api/v1/namespaces/default/pods/two"
    message = (await rig.kubectl(acme, "get", "--raw", f"{path}/log")).errors
    assert "a container name must be specified for pod two, choose one of: [one other]" in message
    message = (await rig.kubectl(acme, "logs", "two", "-c", "third")).errors
    assert "container third is not valid for pod two" in message
    assert "Upgrade request required" in acme.get(f"{path}/exec?command=true&container=one").body.decode()
    assert "invalid" in acme.get(f"{path}/log?container=one&tailLines=-1").body.decode()
    pod = {"metadata": {"name": "homeless"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    assert acme.post("/api/v1/namespaces/default/pods", pod).status == 201
    assert (await rig.kubectl(acme, "logs", "homeless")).out == ""
    message = (await rig.kubectl(acme, "exec", "homeless", "--", "true")).errors
    assert "pod homeless does not have a host assigned" in message
    made = await rig.pod("acme", "early", [{"name": "main"}])
    del made.containers["main"]
    waiting = {"containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0,
               "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}  # fmt: skip
    server.system.patch("/api/v1/tenants/acme/namespaces/default/pods/early/status", {"status": waiting})
    message = (await rig.kubectl(acme, "logs", "early")).errors
    assert 'container "main" in pod "early" is waiting to start: ImagePullBackOff' in message
    message = (await rig.kubectl(acme, "exec", "early", "--", "true")).errors
    assert 'unable to upgrade connection: container not found ("main")' in message
    proxied = acme.get("/api/v1/namespaces/default/pods/two:0/proxy/")
    assert (proxied.status, proxied.json["reason"]) == (503, "ServiceUnavailable")


async def test_who_answers_for_a_node_must_be_that_node(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "fooled", [{"name": "main"}])
    await rig.stop()
    await rig.start(certificate_of="another")
    message = (await rig.kubectl(server.as_tenant("acme"), "logs", "fooled")).errors
    assert "the server at its address has another node's certificate" in message
    assert "127.0.0.1" not in message


async def test_a_node_answers_nobody_but_api_servers(rig: NodeRig, server: LocalServer) -> None:
    pod = await rig.pod("acme", "closed", [{"name": "main"}])
    acme = server.as_tenant("acme")
    server.system.get("/api/v1/nodes")
    path = pod_path("system", "acme", "default", "closed", pod.key.uid, "log") + "?container=main"
    assert rig.agent is not None
    for caller in (acme, server.system):
        pair = caller.kubeconfig.with_suffix(".pem")
        assert await _get(rig.agent.port, server, path, str(pair)) == 403
    own = str(server.directory / "pki" / "apiserver-node-client.pem")
    assert await _get(rig.agent.port, server, path, own) == 200
    other = pod_path("beta", "acme", "default", "closed", pod.key.uid, "log") + "?container=main"
    assert await _get(rig.agent.port, server, other, own) == 403
    earlier = pod_path("system", "acme", "default", "closed", "another-uid", "log") + "?container=main"
    assert await _get(rig.agent.port, server, earlier, own) == 404
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        await _get(rig.agent.port, server, path, "")


async def test_networks_of_a_node_are_open_to_nobody_but_api_servers(
    rig: NodeRig, server: LocalServer
) -> None:
    path = network_path("system", "acme", "default") + "?address=10.0.0.1&port=80"
    own = str(server.directory / "pki" / "apiserver-node-client.pem")
    server.system.get("/api/v1/nodes")
    assert rig.agent is not None
    for caller in (server.as_tenant("acme"), server.system):
        caller.get("/api/v1/namespaces")
        assert await _get(rig.agent.port, server, path, str(caller.kubeconfig.with_suffix(".pem"))) == 403
    other = network_path("beta", "acme", "default") + "?address=10.0.0.1&port=80"
    assert await _get(rig.agent.port, server, other, own) == 403
    for address in ("", "localhost", "10.0.0.1%00"):
        named = network_path("system", "acme", "default") + f"?address={address}&port=80"
        assert await _get(rig.agent.port, server, named, own) == 400
    assert await _get(rig.agent.port, server, path, own) == 503, "this node has no networks"


async def _get(port: int, server: LocalServer, path: str, pair: str) -> int:
    """From a thread: the node's server runs in this one's loop."""

    def get() -> int:
        context = ssl.create_default_context(cafile=str(server.directory / "pki" / "ca.crt"))
        if pair:
            context.load_cert_chain(pair)
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        connection.request("GET", path)
        return connection.getresponse().status

    return await asyncio.to_thread(get)


async def test_streams_are_audited_at_both_ends(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "audited", [{"name": "main"}])
    await rig.kubectl(server.as_tenant("acme"), "exec", "audited", "--", "echo", "hidden-argument")

    def stages() -> list[tuple[str, int]]:
        lines = whole_lines(server.directory / "audit" / "acme.log")
        assert not any("hidden-argument" in line for line in lines)
        events = [orjson.loads(line) for line in lines if '"audited"' in line and '"exec"' in line]
        return [(event["stage"], event["responseStatus"]["code"]) for event in events]

    wanted = [("ResponseStarted", 101), ("ResponseComplete", 101)]
    await asyncio.to_thread(wait_until, lambda: stages() == wanted)
