"""Views of the console in a real browser, on an API server without nodes: what they show of objects, and how they behave.

Needs Debian's chromium and the Python package playwright; findings of axe need `npm ci` in console/.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.testing import browser
from alcove.testing.server import Caller, LocalServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "-"),
]

MAPS = "/api/v1/namespaces/default/configmaps"
NETWORK = {"arktos.futurewei.com/network": "shop"}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Two tenants with the same range, and a node that is lost."""
    with LocalServer(tmp_path_factory.mktemp("server")) as running:
        running.make_namespace("system", "default")
        for name in ("shop", "blue"):
            fill(running, running.make_tenant(name), name)
        lost = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "nobody answers",
        }
        node = made(running.system, "/api/v1/nodes", {"metadata": {"name": "n1"}})
        node["status"] = {"conditions": [lost], "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
        assert running.system.put("/api/v1/nodes/n1/status", node).status == 200
        yield running


def fill(server: LocalServer, caller: Caller, tenant: str) -> None:
    network = {"metadata": {"name": "shop"}, "spec": {"type": "vpc", "ip": "10.0.0.0", "prefix": 16}}
    path = "/apis/arktos.futurewei.com/v1/networks"
    network = made(caller, path, network)
    network["status"] = {"phase": "Ready", "cidr": "10.0.0.0/16", "vpc": f"{tenant}-shop"}
    answer = server.system.put(f"/tenants/{tenant}{path}/shop/status", network)
    assert answer.status == 200, answer.body
    container = {"name": "main", "image": "web"}
    for name in ("web", "db"):
        pod = {"metadata": {"name": name, "labels": NETWORK}, "spec": {"containers": [container]}}
        made(caller, "/api/v1/namespaces/default/pods", pod)
    balancer = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}
    made(
        caller,
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "web", "labels": NETWORK}, "spec": balancer},
    )
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "2"}}}
    made(caller, "/api/v1/namespaces/default/resourcequotas", quota)
    refused = {"metadata": {"name": "third"}, "spec": {"containers": [container]}}
    assert caller.post("/api/v1/namespaces/default/pods", refused).status == 403


def made(caller: Caller, path: str, wanted: Object) -> Object:
    answer = caller.post(path, wanted)
    assert answer.status == 201, answer.body
    result: Object = answer.json
    return result


def url_of(server: LocalServer) -> str:
    host, port = server.address
    return f"https://{host}:{port}"


def signed_in(
    chromium: Any, server: LocalServer, tenant: str = "system", role: str = "cluster-admin", **options: Any
) -> Any:
    page = browser.open_page(chromium, **options)
    browser.sign_in(page, url_of(server), browser.viewer_token(server, tenant, role))
    return page


@pytest.mark.skipif(not browser.AXE.exists(), reason="needs `npm ci` in console/")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious_in_any_view(chromium: Any, server: LocalServer, dark: bool) -> None:
    page = signed_in(chromium, server, dark=dark)
    found = [
        f"{view}: {each}"
        for view in browser.VIEWS
        for each in browser.axe_findings(page, url_of(server), view.format(tenant="shop"))
    ]
    assert found == []


def test_two_tenants_with_the_same_range_are_side_by_side(chromium: Any, server: LocalServer) -> None:
    page = signed_in(chromium, server)
    browser.go(page, url_of(server), "#/t/all/map")
    page.wait_for_selector(".panel >> text=10.0.0.0/16")
    page.wait_for_selector(".panel >> text=blue/shop, shop/shop")
    labels = page.wait_for_function(
        "() => { const cy = document.querySelector('.canvas')?._cyreg?.cy;"
        " const found = cy?.nodes().map((node) => node.data('label')) ?? []; return found.includes('shop') && found; }"
    ).json_value()
    for shown in ("blue", "shop", "shop  ·  blue-shop  ·  10.0.0.0/16", "shop  ·  shop-shop  ·  10.0.0.0/16"):
        assert shown in labels
    assert labels.count("Gateway") == 2
    assert labels.count("web\n<pending>") == 2
    page.click(".choices summary")
    page.click(".choices label:has-text('blue')")
    page.wait_for_selector(".panel >> text=10.0.0.0/16", state="detached")
    assert page.problems == []


def test_the_health_of_parts_and_the_limits_that_were_hit(chromium: Any, server: LocalServer) -> None:
    page = signed_in(chromium, server)
    browser.go(page, url_of(server), "#/health")
    lost = page.locator("tr", has_text="n1").filter(has_text="nobody answers")
    lost.locator("text=failing").wait_for()
    # Nothing leads: the server is alone.
    page.locator("tr", has_text="kube-scheduler").locator("text=failing").wait_for()
    page.locator("tr", has_text="API server").locator("text=healthy").first.wait_for()
    page.locator("tr", has_text="blue").filter(has_text="refused by a quota").wait_for()
    page.locator("tr", has_text="default/team pods 2 / 2").first.wait_for()
    assert page.problems == []


def test_what_a_role_does_not_allow_says_why(chromium: Any, server: LocalServer) -> None:
    page = signed_in(chromium, server, "shop", "view")
    browser.go(page, url_of(server), "#/t/shop/o/pods/default/web")
    button = page.locator(".view-head button:has-text('Delete')[aria-disabled=true]")
    button.wait_for()
    button.click(force=True)
    page.wait_for_selector(".toast >> text=Your roles do not allow to delete pods")
    assert page.locator("dialog").count() == 0
    browser.go(page, url_of(server), "#/tenants")
    page.wait_for_selector("text=There is no such page")
    browser.go(page, url_of(server), "#/t/blue")
    page.wait_for_selector('.problem >> text=you are signed in to the tenant "shop" only')


def test_a_tenant_that_does_not_exist_is_said_not_to(chromium: Any, server: LocalServer) -> None:
    page = signed_in(chromium, server)
    browser.go(page, url_of(server), "#/t/nobody")
    page.wait_for_selector("text=There is no such tenant")


def test_keys_lead_everywhere(chromium: Any, server: LocalServer) -> None:
    page = signed_in(chromium, server, "shop", "admin-role")
    page.wait_for_selector(".tiles")
    page.keyboard.press("?")
    page.wait_for_selector("dialog >> text=Move in a table")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.keyboard.press(":")
    page.wait_for_selector("dialog.command input")
    page.keyboard.type("pods")
    page.wait_for_selector(".command li.chosen >> text=Pods")
    page.keyboard.press("Enter")
    page.wait_for_selector(".rows .row >> text=web")
    page.keyboard.press("/")
    page.keyboard.type("db")
    page.wait_for_selector(".rows .row >> text=web", state="detached")
    page.keyboard.press("Escape")
    page.focus(".table")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/t/shop/o/pods/default/db")
    page.wait_for_selector(".tabs")


def test_a_page_says_when_it_is_stale_and_goes_on_after_a_restart(chromium: Any, tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        acme = server.make_tenant("acme")
        page = signed_in(chromium, server, "acme", "admin-role")
        browser.go(page, url_of(server), "#/t/acme/k/configmaps")
        made(acme, MAPS, {"metadata": {"name": "before"}})
        page.wait_for_selector(".rows .row >> text=before")
        server.stop()
        page.wait_for_selector(".banner >> text=may be out of date")
        page.wait_for_selector(".rows .row >> text=before")
        server.start()
        page.wait_for_selector(".banner", state="detached")
        made(acme, MAPS, {"metadata": {"name": "after"}})
        page.wait_for_selector(".rows .row >> text=after")
        page.wait_for_selector(".live.live >> text=live")
        assert page.problems == []


def flow(node: str, source: str, destination: str, **more: object) -> Object:
    """A flow of pods of the tenant shop, as the API has it."""

    def end(name: str, port: int) -> Object:
        address = {"web": "10.0.0.2", "db": "10.0.0.3"}[name]
        return {"address": address, "port": port, "kind": "Pod", "namespace": "default", "name": name}

    return {
        "metadata": {"name": node, "namespace": "default", "tenant": "shop"},
        "node": node,
        "network": "shop",
        "verdict": "forwarded",
        "protocol": "TCP",
        "source": end(source, 40_000),
        "destination": end(destination, 8080),
        "start": "2026-01-01T00:00:00Z",
        "end": "2026-01-01T00:00:00Z",
        "bytesSent": 10,
        **more,
    }


def test_a_connection_through_a_service_is_drawn_once_though_two_nodes_have_seen_it(
    chromium: Any, server: LocalServer
) -> None:
    service = {"address": "10.96.0.1", "port": 80, "kind": "Service", "namespace": "default", "name": "web"}
    policies = [{"direction": "ingress", "policy": "default/allow", "allows": True}]
    seen = [flow("n1", "db", "web", service=service), flow("n2", "db", "web", policies=policies)]
    page = signed_in(chromium, server)
    page.route(
        "**/apis/sight.alcove.io/v1alpha1/flows?**",
        lambda route: (
            route.fulfill(json={"metadata": {"resourceVersion": "1"}, "items": seen})
            if "watch=" not in route.request.url
            else route.fulfill(body="")
        ),
    )
    browser.go(page, url_of(server), "#/t/shop/map")
    page.wait_for_selector(".panel .edge")
    shown = [" ".join(each.split()) for each in page.locator(".panel .edge").all_inner_texts()]
    assert sorted(shown) == ["● forwarded db → web", "● forwarded web → web"]
    page.click(".panel .edge >> nth=0")
    page.wait_for_selector(".panel a:has-text('default/allow')")


def test_a_tenant_is_moved_and_saved_by_its_page(chromium: Any, server: LocalServer) -> None:
    page = signed_in(chromium, server)
    browser.go(page, url_of(server), "#/t/blue")
    page.click(".actions button:has-text('Back up')")
    page.fill("dialog input[name=to]", "s3://backups/alcove")
    page.fill("dialog input[name=schedule]", "0 3 * * *")
    page.click("dialog button[type=submit]")
    page.wait_for_selector(".toast:has-text('Saved')")
    page.click(".actions button:has-text('Move')")
    page.click("dialog button.primary")
    page.wait_for_selector(".toast:has-text('Tenant blue moves')")
    spec = server.system.get("/api/v1/tenants/blue").json["spec"]
    assert spec["backup"] == {"to": "s3://backups/alcove", "schedule": "0 3 * * *"}
    assert spec["controlPlane"]["mode"] == "Dedicated"
