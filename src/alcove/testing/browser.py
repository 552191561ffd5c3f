"""Chromium for tests and benchmarks of the console, driven by Playwright. Both are optional: `missing` says what is not
there."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alcove.testing.server import Caller, LocalServer

WAIT_MS_MAX = 90_000
LARGE, SMALL = (1360, 850), (390, 800)
VIEWER = "viewer"
AXE = Path(__file__).parents[3] / "console" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = (
    *("#/tenants", "#/health", "#/t/all/map", "#/t/all/flows", "#/t/all/k/pods", "#/t/system/k/nodes"),
    *(
        "#/t/{tenant}",
        "#/t/{tenant}/k/pods",
        "#/t/{tenant}/k/events",
        "#/t/{tenant}/map",
        "#/t/{tenant}/flows",
    ),
    *("#/t/{tenant}/o/namespaces/-/default", "#/t/{tenant}/o/namespaces/-/default?tab=yaml"),
    *("#/t/{tenant}/o/namespaces/-/default?tab=events", "#/t/{tenant}/o/namespaces/-/default?tab=related"),
    *("#/t/{tenant}/apply", "#/t/nobody"),
)
"""Every kind of view, of ring0 and of a tenant."""
SETTLED = """
() => !document.querySelector(".live.loading, main [aria-busy=true]")
  && [...document.querySelectorAll(".canvas")].every((canvas) => canvas.querySelector("canvas"))
  && new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))
"""
AXE_RUN = "() => axe.run(document, {resultTypes: ['violations']})"
PASTE = """
(editor, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  editor.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}
"""


def missing() -> str:
    """An empty string if a browser can be used, else what is needed."""
    if shutil.which("chromium") is None:
        return "needs chromium"
    if importlib.util.find_spec("playwright") is None:
        return "needs the Python package playwright"
    return ""


@contextmanager
def chromium(*, headless: bool = True) -> Iterator[Any]:
    """A running browser, of Playwright's type Browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its own sandbox needs namespaces that a test in a container may not make.
        options = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=options, headless=headless
        )
        try:
            yield browser
        finally:
            browser.close()


def open_page(
    browser: Any, size: tuple[int, int] = LARGE, *, dark: bool = False, language: str = "en-US"
) -> Any:
    """A page of a new session. What it writes to its console as an error is in its attribute `problems`."""
    context = browser.new_context(
        ignore_https_errors=True,
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        locale=language,
        accept_downloads=True,
    )
    page = context.new_page()
    page.set_default_timeout(WAIT_MS_MAX)
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "console",
        lambda said: page.problems.append(said.text) if "Content Security Policy" in said.text else None,
    )
    return page


def sign_in(page: Any, url: str, token: str) -> None:
    page.goto(f"{url}/console/")
    page.fill("input[name=token]", token)
    page.click("button[type=submit]")
    page.wait_for_selector(".shell")


def go(page: Any, url: str, view: str) -> None:
    """Opens a view of a signed-in page by its link."""
    page.goto(f"{url}/console/{view}")


def write_yaml(page: Any, text: str) -> None:
    """Pastes the text into the page's editor, in place of what is there. The cursor is at its end then."""
    editor = page.locator(".editor .cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    editor.evaluate(PASTE, text)


def axe_findings(page: Any, url: str, view: str) -> list[str]:
    """What axe finds serious or critical in a view, which is settled: a name of the rule and the first element each."""
    go(page, url, view)
    page.wait_for_selector("main .view-head")
    page.wait_for_function(SETTLED)
    page.evaluate(AXE.read_text())
    violations = page.evaluate(AXE_RUN)["violations"]
    serious = [each for each in violations if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in serious]


def viewer_token(server: LocalServer, tenant: str, role: str) -> str:
    """A token of a new service account of the tenant that has the cluster role."""
    return token_of(server.system, tenant, role)


def token_of(system: Caller, tenant: str, role: str) -> str:
    accounts = f"/api/v1/tenants/{tenant}/namespaces/default/serviceaccounts"
    bindings = f"/apis/rbac.authorization.k8s.io/v1/tenants/{tenant}/clusterrolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": VIEWER, "namespace": "default"}
    binding = {"metadata": {"name": VIEWER}, "roleRef": reference, "subjects": [subject]}
    for path, body in ((accounts, {"metadata": {"name": VIEWER}}), (bindings, binding)):
        answer = system.post(path, body)
        assert answer.status in (201, 409), answer.body
    made = system.post(f"{accounts}/{VIEWER}/token", {"spec": {"expirationSeconds": 36_000}})
    assert made.status == 201, made.body
    return str(made.json["status"]["token"])
