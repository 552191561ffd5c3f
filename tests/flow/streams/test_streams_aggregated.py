"""Aggregated APIs: through the agent of the extension server's node, with the caller's identity in headers."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from pathlib import Path

from alcove.api.objects import Object
from alcove.cli.connection import load
from alcove.testing.aggregated_api import GROUP, NAME, REGISTRATIONS, ROOT, THINGS, TRUST, AggregatedApi
from alcove.testing.extension_server import ExtensionServer
from alcove.testing.server import Caller, wait_until

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_built_in_group_versions_are_listed_and_cannot_be_taken(api: AggregatedApi) -> None:
    printed = api.caller.kubectl("get", "apiservices", "v1.apps", "v1.")
    assert printed.count("Local") == 2 and printed.count("True") == 2
    listed = api.caller.get(REGISTRATIONS).json
    assert all(each["spec"].get("service") is None for each in listed["items"])
    refused = [
        api.caller.delete(f"{REGISTRATIONS}/v1.apps"),
        api.caller.patch(f"{REGISTRATIONS}/v1.apps", {"spec": {"service": {"namespace": "n", "name": "s"}}}),
        api.caller.patch(f"{REGISTRATIONS}/v1.apps/status", {"status": {"conditions": []}}),
        api.caller.post(REGISTRATIONS, {"metadata": {"name": "v1."}, "spec": {
            "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
            "service": {"namespace": "n", "name": "s"}}}),
    ]  # fmt: skip
    assert [each.status for each in refused] == [403] * 4, [each.body for each in refused]
    assert 'the group version "v1" is served by this API server itself' in refused[-1].json["message"]
    assert api.caller.delete(REGISTRATIONS).status == 200
    assert len(api.caller.get(REGISTRATIONS).json["items"]) == len(listed["items"])


async def test_requests_reach_the_extension_server_with_the_callers_identity(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        forged = {"x_remote_user": "root", "x_remote_group": "system:masters", "X_Remote_Extra_a": "b"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        staff = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "staff"}
        api.post(BINDINGS, {"metadata": {"name": "staff"}, "roleRef": role, "subjects": [staff]})
        body = b"x" * (1 << 20)
        answer = await api.post_later(f"{THINGS}/a/echo?dryRun=All", body, **forged, impersonate_user="eve",
                                      impersonate_group="staff")  # fmt: skip
        echo = answer.json
        assert (answer.status, echo["method"], echo["length"]) == (200, "POST", len(body))
        assert echo["path"] == f"{THINGS}/a/echo?dryRun=All"
        assert (echo["user"], echo["headers"]["x-remote-user"]) == ("eve", ["eve"])
        assert echo["headers"]["x-remote-group"] == ["staff", "system:authenticated"]
        assert not {"authorization", "impersonate-user", "x-remote-extra-a"} & set(echo["headers"])
        assert echo["headers"]["host"] == ["things.default.svc:443"]
        system, path = api.server.system, f"/tenants/{api.tenant}{THINGS}/a/echo"
        ring0 = (await asyncio.to_thread(system.get, path)).json
        assert ring0["user"] == "system:ring0:admin"
        assert ring0["headers"]["x-remote-group"] == ["system:masters", "system:authenticated"]


async def test_all_verbs_over_reused_connections(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        before = extension.connections
        for number in range(10):
            made = await api.post_later(THINGS, {"metadata": {"name": f"t{number}"}})
            assert made.status == 201, made.body
            assert (await api.get(f"{THINGS}/t{number}")).json["kind"] == "Thing"
        assert extension.connections <= before + 2
        assert (await api.get(f"{THINGS}/none")).status == 404
        head = await asyncio.to_thread(api.caller.request, "HEAD", f"{THINGS}/none")
        assert (head.status, head.body) == (404, b"")
        assert (await asyncio.to_thread(api.caller.delete, f"{THINGS}/t0")).status == 200
        assert len((await api.get(THINGS)).json["items"]) == 9
        assert (await asyncio.to_thread(api.caller.delete, THINGS)).status == 200
        assert (await api.get(THINGS)).json["items"] == []


async def test_a_watch_is_streamed_as_it_happens(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        events: asyncio.Queue[Object] = asyncio.Queue()
        loop, stop = asyncio.get_running_loop(), threading.Event()

        def follow() -> None:
            connection = raw(api.caller)
            connection.request("GET", f"{THINGS}?watch=true")
            with connection.getresponse() as response:
                while not stop.is_set() and (line := response.readline()):
                    loop.call_soon_threadsafe(events.put_nowait, json.loads(line))
            connection.close()

        following = asyncio.create_task(asyncio.to_thread(follow))
        for name in ("a", "b"):
            await api.post_later(THINGS, {"metadata": {"name": name}})
            event = await asyncio.wait_for(events.get(), 30)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
        stop.set()
        extension.change("BOOKMARK", {})
        await following


async def test_an_upgrade_is_relayed(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)

        def talk() -> bytes:
            connection = raw(api.caller)
            connection.putrequest("GET", f"{THINGS}/a/shell")
            for name, value in {"Connection": "Upgrade", "Upgrade": "echo"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            assert connection.sock is not None
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.sock.recv(4096)
            assert head.startswith(b"HTTP/1.1 101"), head
            connection.sock.sendall(b"hello")
            received = connection.sock.recv(4096)
            connection.close()
            return received

        assert await asyncio.to_thread(talk) == b"hello"


def raw(caller: Caller) -> http.client.HTTPSConnection:
    user = load(caller.kubeconfig)
    host, _, port = user.server.removeprefix("https://").partition("/")[0].partition(":")
    context = ssl.create_default_context(cadata=user.ca_pem.decode())
    context.load_cert_chain(caller.kubeconfig.with_suffix(".pem"))
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


async def test_who_may_not_is_refused_before_the_extension_server_is_asked(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        nobody = api.server.as_tenant(api.tenant, "nobody")
        asked = len(extension.seen)
        answer = await asyncio.to_thread(nobody.get, THINGS)
        assert answer.status == 403 and 'cannot list resource "things" in API group' in answer.json["message"]
        other = api.server.as_tenant("acme")
        assert (await asyncio.to_thread(other.get, f"/tenants/{api.tenant}{THINGS}")).status == 403
        assert (await asyncio.to_thread(other.get, THINGS)).status == 404
        assert not [path for _, path, _ in extension.seen[asked:] if path.startswith(THINGS)]


async def test_a_front_proxys_certificate_is_of_no_use_elsewhere(api: AggregatedApi, folder: Path) -> None:
    """It is of an authority of the tenant's own, with a key of its own."""
    other = AggregatedApi(api.server, api.rig)
    assert other.authority != api.authority
    mine, others = (
        ssl.create_default_context(cadata=each.authority.decode()).get_ca_certs(binary_form=True)
        for each in (api, other)
    )
    assert mine != others
    # The other tenant's extension server does not know this tenant's front proxy, and answers 401.
    with ExtensionServer(GROUP, api.certificate, api.key, other.authority) as extension:
        api.serve(extension.port)
        api.register()
        await asyncio.to_thread(api.await_condition, "False", "FailedDiscoveryCheck")
    data = api.caller.get(TRUST).json["data"]
    cluster = (api.server.directory / "pki" / "ca.crt").read_text()
    assert cluster not in data.values()


async def test_discovery_has_the_group_alive_or_dead(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        api.register("dead.example.com", service={"namespace": "default", "name": "none"})
        groups = {each["name"]: each for each in (await api.get("/apis")).json["groups"]}
        assert {GROUP, "dead.example.com"} == set(list(groups)[-2:])
        assert groups[GROUP]["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
        assert (await api.get(f"/apis/{GROUP}")).json["name"] == GROUP
        assert (await api.get(ROOT)).json["resources"][0]["name"] == "things"
        listed = (await api.get("/apis", accept=AGGREGATED)).json["items"]
        found = {each["metadata"]["name"]: each["versions"][0] for each in listed}
        assert found["dead.example.com"] == {"version": "v1", "freshness": "Stale"}
        [thing] = found[GROUP]["resources"]
        assert (found[GROUP]["freshness"], thing["resource"], thing["scope"]) == (
            "Current",
            "things",
            "Namespaced",
        )
        assert [each["subresource"] for each in thing["subresources"]] == ["echo"]
        printed = await asyncio.to_thread(api.caller.kubectl, "api-resources", check=False)
        assert "things" in printed and "deployments" in printed
        await asyncio.to_thread(api.caller.kubectl, "create", "-f", "-", "--validate=false",
                                stdin=json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "k"}}))  # fmt: skip
        assert "k" in await asyncio.to_thread(api.caller.kubectl, "get", "tg", "-o", "name")
        others = {each["name"] for each in api.server.as_tenant("acme").get("/apis").json["groups"]}
        assert GROUP not in others


async def test_openapi_has_what_belongs_to_the_group(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        index = (await api.get("/openapi/v3")).json["paths"]
        assert index[f"apis/{GROUP}/v1"] == {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=1234"}
        assert "Thing" in str((await api.get(f"/openapi/v3{ROOT}?hash=1234")).json["components"])
        whole = (await api.get("/openapi/v2")).json
        assert (
            "com.example.things.v1.Thing" in whole["definitions"]
            and f"{ROOT}/namespaces/{{namespace}}/things" in whole["paths"]
        )
        assert "io.k8s.api.core.v1.Pod" in whole["definitions"] and "/apis/apps/v1/lies" not in whole["paths"]
        explained = await asyncio.to_thread(api.caller.kubectl, "explain", "things.size")
        assert "How large it is." in explained


async def test_objects_of_an_aggregated_api_are_deleted_after_their_owners(api: AggregatedApi) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    with api.extension() as extension:
        await api.ready(extension)
        for name, owners in (
            ("left", ["gone"]),
            ("shared", ["gone", "stays"]),
            ("foreign", ["elsewhere"]),
            ("free", []),
        ):
            references = [owner_reference(api, maps, owner) for owner in owners]
            metadata = {"name": name, "uid": f"uid-{name}", "ownerReferences": references}
            assert (await api.post_later(THINGS, {"metadata": metadata})).status == 201
        assert api.caller.delete(f"{maps}/gone").status == 200
        # A change of the APIService is looked at at once, not after the interval.
        patch = {"metadata": {"annotations": {"example.com/touched": "yes"}}}
        assert api.caller.patch(f"{REGISTRATIONS}/{NAME}", patch).status == 200
        await asyncio.to_thread(wait_until, lambda: "left" not in extension.things)
        assert set(extension.things) == {"shared", "foreign", "free"}
        [path] = [path for method, path, _ in extension.seen if method == "DELETE"]
        assert path == f"{THINGS}/left"


def owner_reference(api: AggregatedApi, path: str, name: str) -> Object:
    """A reference to a ConfigMap that is created for it, or to an object of a kind that the API server does not have."""
    if name == "elsewhere":
        return {"apiVersion": "other.example.com/v1", "kind": "Other", "name": name, "uid": "none"}
    made = api.caller.post(path, {"metadata": {"name": name}})
    found = made.json if made.status == 201 else api.caller.get(f"{path}/{name}").json
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": found["metadata"]["uid"]}
