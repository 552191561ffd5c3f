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
MIDDLE_OF = """
(name) => {
  const all = document.querySelector(".canvas")._cyreg.cy.elements();
  const found = all.filter((each) => new RegExp(name).test(each.id()))[0];
  const middle = found.isNode() ? found.renderedPosition() : found.renderedMidpoint();
  return [middle.x, middle.y];
}
"""


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
            ("#/t/acme/o/configmaps/default/bad", "\\u202e"),
            ("#/t/acme/o/configmaps/default/bad?tab=yaml", ""),
            ("#/t/acme/k/events", "onerror"),
            ("#/t/acme", "onerror"),
            (f"#/t/acme/k/{HOSTILE}", ""),
        ):
            browser.go(page, url_of(server), view)
            page.wait_for_selector(f"text={shown}" if shown else "main")
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
            self.page.wait_for_timeout(500)
            self.page.screenshot(path=f"{self._directory}/{name}.png")

    def go(self, view: str) -> None:
        browser.go(self.page, self.url, view)

    def apply(self, text: str) -> None:
        self.go("#/t/shop/apply")
        self.page.fill(".editor textarea", text)
        self.page.click("text=Try (dry run)")
        self.page.wait_for_selector("text=will be created")
        self.page.click("button.primary:has-text('Apply')")
        self.page.wait_for_selector(".toast:has-text('Applied')")

    def tap(self, name: str, shown: str) -> None:
        """Clicks on what the map draws for the id that this regular expression finds, until the panel shows the text: new
        pods and flows may move it away just before a click."""
        wait_until(lambda: self._is_shown_after_tap(name, shown))

    def _is_shown_after_tap(self, name: str, shown: str) -> bool:
        found = f"() => document.querySelector('.canvas')?._cyreg?.cy.elements().some((e) => /{name}/.test(e.id()))"
        self.page.wait_for_function(found)
        box = self.page.locator(".canvas").bounding_box()
        x, y = self.page.evaluate(MIDDLE_OF, name)
        self.page.mouse.click(box["x"] + x, box["y"] + y)
        self.page.wait_for_timeout(1000)
        return bool(self.page.locator(".panel", has_text=shown).count())


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
        story.picture("tenants")

        story.apply(POLICY)
        story.go("#/t/shop/map")
        story.tap("intruder.*>p:default.db.*:dropped", "denied by NetworkPolicy default/only-report")
        story.picture("map")

        story.go("#/t/shop/k/pods?q=db")
        page.locator(".rows .row a").first.click()
        page.click("text=Terminal")
        page.wait_for_function("() => document.querySelector('.xterm-rows')?.innerText.includes('#')")
        page.click(".terminal-box")
        page.keyboard.type("echo $((6*7))\n")
        page.wait_for_function("() => document.querySelector('.xterm-rows').innerText.includes('42')")
        story.picture("terminal")

        story.go("#/tenants")
        page.locator(".row", has_text="shop").locator("button:has-text('Delete')").click()
        page.wait_for_selector("dialog >> text=8 pods")
        page.fill("dialog input", "shop")
        page.click("dialog button.danger")
        page.wait_for_selector(".rows >> text=shop", state="detached")
        assert server.system.get("/api/v1/tenants/shop").status == 404
        assert [each for each in page.problems if not re.search("WebSocket", each)] == []
