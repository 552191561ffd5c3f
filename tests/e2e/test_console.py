"""The console in a real browser: first on objects full of markup, then the README's story on real nodes.

With SCREENSHOTS=DIRECTORY the story leaves the pictures of docs/console.md there. Needs Debian's chromium and the Python
package playwright.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.testing import browser
from alcove.testing.cluster import RealCluster, lacking, tenant_is_ready
from alcove.testing.server import LocalServer, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "-"),
]

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202e\u001b[31m"
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "console.yaml"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: only-report
  namespace: default
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: report}}}]
"""
HAS_RATES = """
() => document.querySelector(".canvas")._cyreg.cy.edges().some((edge) => edge.data("label").includes("B/s"))
"""
POINTS_OF = """
(name) => {
  const all = document.querySelector(".canvas")._cyreg.cy.elements();
  const found = all.filter((each) => new RegExp(name).test(each.id()))[0];
  if (found.isNode()) return [[found.renderedPosition().x, found.renderedPosition().y]];
  const [from, middle, to] = [found.renderedSourceEndpoint(), found.renderedMidpoint(), found.renderedTargetEndpoint()];
  const between = (a, b, part) => [a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part];
  return [between(middle, to, 0), between(from, middle, 0.5), between(middle, to, 0.5), between(from, middle, 0.2), between(middle, to, 0.8)];
}
"""
"""Where what has this id is drawn. Others may be drawn above some part of an edge."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.chromium() as running:
        yield running


def url_of(server: LocalServer) -> str:
    host, port = server.address
    return f"https://{host}:{port}"


def test_what_a_tenant_stores_is_text_to_everybody(chromium: Any, tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        server.make_namespace("system", "default")
        acme = server.make_tenant("acme")
        made = {"metadata": {"name": "bad", "annotations": {"note": HOSTILE}}, "data": {"key": HOSTILE}}
        assert acme.post("/api/v1/namespaces/default/configmaps", made).status == 201
        # What only nodes write, of words that a container or an image has chosen; and an owner that nobody has checked.
        owner = {
            "apiVersion": "v1",
            "kind": HOSTILE[:60],
            "name": HOSTILE[:60],
            "uid": "u",
            "controller": True,
        }
        pod = {
            "metadata": {"name": "bad", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": HOSTILE[:60].replace(" ", "")}]},
        }
        made_pod = acme.post("/api/v1/namespaces/default/pods", pod)
        assert made_pod.status == 201, made_pod.body
        waiting = {"reason": HOSTILE, "message": HOSTILE}
        status = {"name": "main", "ready": False, "restartCount": 0, "image": HOSTILE, "imageID": HOSTILE}
        statuses = [{**status, "state": {"waiting": waiting}}]
        told = {"phase": "Pending", "message": HOSTILE, "reason": HOSTILE, "containerStatuses": statuses}
        pod = {**made_pod.json, "status": told}
        written = server.system.put("/tenants/acme/api/v1/namespaces/default/pods/bad/status", pod)
        assert written.status == 200, written.body
        event = {
            "metadata": {"name": "bad"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": HOSTILE[:60]},
            "reason": HOSTILE[:100],
            "message": HOSTILE,
            "type": "Warning",
        }
        assert acme.post("/api/v1/namespaces/default/events", event).status == 201
        page = browser.open_page(chromium)
        browser.sign_in(page, url_of(server), browser.viewer_token(server, "system", "cluster-admin"))
        for view, shown in (
            ("#/t/acme/o/configmaps/default/bad", "text=\\u202e"),
            ("#/t/acme/o/configmaps/default/bad?tab=yaml", ".view-head"),
            ("#/t/acme/k/events", "text=onerror"),
            ("#/t/all/k/events", "text=onerror"),
            ("#/t/acme", "text=onerror"),
            ("#/health", "text=onerror"),
            ("#/t/acme/o/pods/default/bad", "text=onerror"),
            ("#/t/acme/k/pods", "text=onerror"),
            ("#/t/acme/map", ".canvas canvas"),
            ("#/t/acme/o/pods/default/bad?tab=related", "text=onerror"),
            (f"#/t/acme/k/{HOSTILE}", ".empty"),
        ):
            browser.go(page, url_of(server), view)
            page.wait_for_selector(f"main >> {shown}")
            assert page.locator("main img, main script").count() == 0
            assert page.title() == "Alcove"
        assert page.problems == []


WIDGETS = {
    "metadata": {"name": "widgets.shop.example"},
    "spec": {
        "group": "shop.example",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "description": HOSTILE,
                                "properties": {
                                    "size": {
                                        "type": "string",
                                        "description": HOSTILE,
                                        "enum": ["large", HOSTILE],
                                    },
                                    HOSTILE: {"type": "string"},
                                },
                            }
                        },
                    }
                },
                "additionalPrinterColumns": [
                    {"name": HOSTILE, "type": "string", "jsonPath": ".spec.size", "description": HOSTILE}
                ],
            }
        ],
    },
}
WIDGET = """\
apiVersion: shop.example/v1
kind: Widget
metadata:
  name: bad
spec:
"""
DEPLOYMENT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: fine
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: web
        imagePolicy: Always
"""


def test_the_editor_completes_and_explains_by_schemas_which_are_text(chromium: Any, tmp_path: Path) -> None:
    with LocalServer(tmp_path) as server:
        acme = server.make_tenant("acme")
        kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert acme.post(kinds, WIDGETS).status == 201
        widgets = "/apis/shop.example/v1/namespaces/default/widgets"
        wait_until(lambda: acme.get(widgets).status == 200)
        page = browser.open_page(chromium)
        browser.sign_in(page, url_of(server), browser.viewer_token(server, "acme", "admin-role"))
        browser.go(page, url_of(server), "#/t/acme/apply")

        browser.write_yaml(page, WIDGET)
        page.keyboard.type("  si")
        page.wait_for_selector(".cm-completionInfo >> text=onerror")
        # By the mouse: keys are ignored for a moment after the list has opened.
        page.click(".cm-tooltip-autocomplete li:has-text('size')")
        page.keyboard.type("l")
        page.click(".cm-tooltip-autocomplete li:has-text('large')")
        page.wait_for_selector(".cm-line:has-text('size: large')")
        page.locator(".cm-line:has-text('spec:') span").first.hover()
        page.wait_for_selector(".cm-tooltip-hover >> text=onerror")
        assert page.locator("img[src=x], main script").count() == 0
        page.click("text=Try (dry run)")
        page.wait_for_selector("text=will be created")
        page.click("button.primary:has-text('Apply')")
        page.wait_for_selector(".toast:has-text('Applied')")
        assert acme.get(f"{widgets}/bad").json["spec"] == {"size": "large"}

        browser.write_yaml(page, DEPLOYMENT)
        page.click("text=Try (dry run)")
        page.wait_for_selector(".cm-lintRange-error:has-text('imagePolicy')")
        browser.go(page, url_of(server), "#/t/acme/k/widgets.shop.example")
        page.wait_for_selector(".rows .row >> text=large")
        assert page.locator("main img, main script").count() == 0
        assert page.title() == "Alcove"
        assert page.problems == []


class Story:
    """What a user does, in the order of the README."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self._directory = os.environ.get("SCREENSHOTS", "")

    def picture(self, name: str) -> None:
        if self._directory:
            # Nothing is under the pointer.
            self.page.mouse.move(800, 2)
            self.page.wait_for_timeout(500)
            self.page.screenshot(path=f"{self._directory}/{name}.png")

    def go(self, view: str) -> None:
        browser.go(self.page, self.url, view)

    def apply(self, text: str) -> None:
        self.go("#/t/shop/apply")
        browser.write_yaml(self.page, text)
        self.page.click("text=Try (dry run)")
        self.page.wait_for_selector("text=will be created")
        self.page.click("button.primary:has-text('Apply')")
        self.page.wait_for_selector(".toast:has-text('Applied')")

    def tap(self, name: str, shown: str) -> None:
        """Clicks on what the map draws for the id that this regular expression finds, until the panel shows the text: new
        pods and flows may move it away just before a click."""
        try:
            wait_until(lambda: self._is_shown_after_tap(name, shown))
        except AssertionError:
            self.picture("failed")
            raise

    def _is_shown_after_tap(self, name: str, shown: str) -> bool:
        found = f"() => document.querySelector('.canvas')?._cyreg?.cy.elements().some((e) => /{name}/.test(e.id()))"
        self.page.wait_for_function(found)
        box = self.page.locator(".canvas").bounding_box()
        for x, y in self.page.evaluate(POINTS_OF, name):
            self.page.mouse.click(box["x"] + x, box["y"] + y)
            self.page.wait_for_timeout(1000)
            if self.page.locator(".panel", has_text=shown).count():
                return True
        return False


@pytest.mark.alone
@pytest.mark.root
@pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")
@pytest.mark.timeout(900)
def test_a_tenant_is_made_used_watched_and_deleted(chromium: Any, tmp_path: Path) -> None:
    with RealCluster(tmp_path, 2) as cluster:
        server = cluster.server
        server.make_namespace("system", "default")
        page = browser.open_page(chromium)
        story = Story(page, url_of(server))
        browser.sign_in(page, story.url, browser.viewer_token(server, "system", "cluster-admin"))

        page.click("text=Create tenant")
        page.fill("dialog input[name=name]", "shop")
        page.fill("dialog input[name=weight]", "2")
        page.click("dialog button[type=submit]")
        page.wait_for_selector(".rows >> text=shop")
        wait_until(lambda: tenant_is_ready(server, "shop"))

        story.apply(EXAMPLE.read_text())
        story.go("#/t/shop/k/pods")
        page.wait_for_function("() => [...document.querySelectorAll('.badge.good')].length >= 8")
        story.picture("pods")
        story.go("#/tenants")
        page.wait_for_selector(".rows >> text=8/8")
        # Sparklines begin with the second measurement.
        page.wait_for_selector(".row:has-text('shop') .spark polyline")
        story.picture("tenants")
        story.go("#/t/shop")
        page.wait_for_selector(".tile >> text=healthy")
        page.wait_for_function("() => document.querySelectorAll('.plot canvas').length === 4")
        story.picture("overview")
        story.go("#/health")
        page.locator("tr", has_text="n2").locator("text=healthy").wait_for()
        page.locator("tr", has_text="kube-scheduler").locator("text=healthy").wait_for()
        story.picture("health")

        story.apply(POLICY)
        story.go("#/t/shop/map")
        story.tap("intruder.*>p:shop.default.db.*:dropped", "denied by NetworkPolicy default/only-report")
        page.click(".panel button:has-text('Trace')")
        page.wait_for_selector(".panel .steps >> text=default/only-report")
        # Rates are known with the second list of flows.
        page.wait_for_function(HAS_RATES)
        story.picture("map")
        other = cluster.make_tenant("blue")
        other.kubectl("apply", "-f", str(EXAMPLE))
        story.go("#/t/all/map")
        page.wait_for_selector(".panel >> text=blue/shop, shop/shop")
        page.wait_for_function(HAS_RATES)
        story.picture("side-by-side")

        story.go("#/t/shop/o/deployments.apps/default/web?tab=related")
        page.wait_for_selector(".tree >> text=ReplicaSet")
        page.wait_for_function("() => document.querySelectorAll('.tree .leaf').length >= 4")
        story.picture("related")
        story.go("#/t/shop/o/deployments.apps/default/front?tab=logs")
        page.wait_for_function(
            "() => new Set([...document.querySelectorAll('.log .from')].map((e) => e.innerText)).size >= 2"
        )
        story.go("#/t/shop/k/pods?q=db")
        page.locator(".rows .row a").first.click()
        page.click("text=Terminal")
        page.wait_for_function("() => document.querySelector('.xterm-rows')?.innerText.includes('#')")
        page.click(".terminal-box")
        page.keyboard.type("echo $((6*7))\n")
        page.wait_for_function("() => document.querySelector('.xterm-rows').innerText.includes('42')")
        story.picture("terminal")

        story.go("#/tenants")
        page.locator(".row", has_text="shop").locator("button[aria-label='Actions: shop']").click()
        page.click("dialog button:has-text('Delete')")
        page.wait_for_selector("dialog >> text=8 Pods")
        page.fill("dialog input", "shop")
        page.click("dialog button.danger")
        page.wait_for_selector(".rows >> text=shop", state="detached")
        assert server.system.get("/api/v1/tenants/shop").status == 404
        assert [each for each in page.problems if not re.search("WebSocket", each)] == []
