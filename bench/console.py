"""The console in a real browser: `python -m bench.console [--quick] [--json FILE]`.

Needs Debian's chromium and the Python package playwright; findings of axe need `npm ci` in console/. Times are taken in
the page, by its own clock: from the start of the navigation, from the end of the response, or, for an event, from before
its write is sent.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import json
import re
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from alcove.console.files import STATIC
from alcove.testing import browser
from alcove.testing.server import Caller, LocalServer

ROWS, PODS, CONSOLES = 5_000, 1_000, 100
OWN = {"X-Alcove-Console": "1", "Content-Type": "application/json"}
WATCHED = ("/api/v1/namespaces", "/api/v1/events")
MAPS = "/api/v1/namespaces/default/configmaps"

DRAWN = """
(selector) => new Promise((resolve) => {
  const look = () => document.querySelector(selector)
    ? requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())))
    : requestAnimationFrame(look);
  look();
})
"""
SCROLL = """
() => new Promise((resolve) => {
  const box = document.querySelector(".table");
  let [steps, last, longest] = [0, performance.now(), 0];
  const step = () => {
    const now = performance.now();
    if (steps > 5) longest = Math.max(longest, now - last);
    last = now;
    box.scrollTop += 700;
    if (++steps < 200) requestAnimationFrame(step); else resolve(longest);
  };
  requestAnimationFrame(step);
})
"""
PAN = """
() => new Promise((resolve) => {
  const map = document.querySelector(".canvas")._cyreg.cy;
  let [steps, last, longest] = [0, performance.now(), 0];
  const step = () => {
    const now = performance.now();
    if (steps > 5) longest = Math.max(longest, now - last);
    last = now;
    map.panBy({ x: steps % 40 < 20 ? 9 : -9, y: 3 });
    if (++steps < 100) requestAnimationFrame(step); else resolve(longest);
  };
  requestAnimationFrame(step);
})
"""
SEEN = """
(name) => new Promise((resolve) => {
  const look = () => [...document.querySelectorAll(".rows .row a")].some((link) => link.textContent === name)
    ? requestAnimationFrame(() => resolve(Date.now()))
    : requestAnimationFrame(look);
  look();
})
"""


def fill(caller: Caller, rows: int, pods: int) -> None:
    for number in range(rows):
        stored = {"metadata": {"name": f"map-{number:05d}"}, "data": {"key": "value"}}
        assert caller.post(MAPS, stored).status == 201
    for number in range(pods):
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "u", "controller": True}
        owner["name"] = f"app-{number % 20}-5d8f9"
        pod = {
            "metadata": {"name": f"app-{number % 20}-5d8f9-{number:05d}", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "image"}]},
        }
        answer = caller.post("/api/v1/namespaces/default/pods", pod)
        assert answer.status == 201, answer.body


def first_load_kb() -> float:
    at_once = re.findall(r'(?:from|import)"\./([\w-]+\.js)"', (STATIC / "app.js").read_text())
    names = ("index.html", "app.js", "style.css", "icon.svg", *at_once)
    return sum(len(gzip.compress((STATIC / name).read_bytes(), 6)) for name in names) / 1024


def first_paint_ms(page: Any, url: str, rounds: int) -> float:
    """From the start of the navigation to a drawn table, with an empty cache for the page's data."""
    took: list[float] = []
    for _ in range(rounds):
        page.goto("about:blank")
        browser.go(page, url, "#/t/acme/k/namespaces")
        took.append(page.evaluate(DRAWN, ".rows .row"))
    return statistics.median(took)


def table_ms(page: Any, url: str, rows: int) -> tuple[float, float]:
    """From the end of the response to the drawn table; and the longest frame while scrolling."""
    page.goto("about:blank")
    browser.go(page, url, "#/t/acme/k/configmaps")
    drawn = page.evaluate(DRAWN, f".table[data-rows='{rows}'] .row")
    received = page.evaluate(
        "() => Math.max(...performance.getEntriesByType('resource').filter((e) => e.name.includes('configmaps?')"
        " && !e.name.includes('watch')).map((e) => e.responseEnd))"
    )
    return drawn - received, page.evaluate(SCROLL)


def map_ms(page: Any, url: str, pods: int) -> tuple[float, float]:
    """From the click that opens all groups to the drawn map; and the longest frame while it is moved about."""
    browser.go(page, url, "#/t/acme/map")
    page.wait_for_function("() => Number(document.querySelector('.canvas')?.dataset.nodes ?? 0) > 0")
    page.evaluate("() => { window.began = performance.now(); }")
    page.click("text=Expand")
    page.wait_for_function(f"() => Number(document.querySelector('.canvas').dataset.nodes) > {pods}")
    drawn = float(page.evaluate(DRAWN, ".canvas")) - float(page.evaluate("() => window.began"))
    return drawn, page.evaluate(PAN)


def event_ms(page: Any, url: str, caller: Caller, rounds: int) -> float:
    browser.go(page, url, "#/t/acme/k/configmaps?q=probe")
    page.wait_for_selector(".live.live")
    took: list[float] = []
    for number in range(rounds):
        name = f"probe-{number}"
        page.evaluate(f"(name) => {{ window.seen = ({SEEN})(name); }}", name)
        began = time.time() * 1000
        assert caller.post(MAPS, {"metadata": {"name": name}}).status == 201
        took.append(page.evaluate("() => window.seen") - began)
    return statistics.median(took)


def axe_serious(page: Any, url: str) -> int | None:
    """Findings that are serious or critical in all views, as ring0 sees them; None without axe."""
    if not browser.AXE.exists():
        return None
    found = 0
    for view in browser.VIEWS:
        for each in browser.axe_findings(page, url, view.format(tenant="acme")):
            print(f"axe: {view}: {each}", file=sys.stderr)
            found += 1
    return found


def gets_per_second(caller: Caller, seconds: float) -> float:
    began, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        assert caller.get(f"{MAPS}/map-00000").status == 200
        count += 1
    return count / passed


def gets_ratio(caller: Caller, server: LocalServer, token: str, seconds: float) -> float:
    """How many GETs a client gets answered with 100 open consoles, each with the watches of a view, by those without."""
    alone = gets_per_second(caller, seconds)
    with contextlib.ExitStack() as stack:
        for _ in range(CONSOLES):
            connection = http.client.HTTPSConnection(
                *server.address, context=ssl._create_unverified_context()
            )
            stack.callback(connection.close)
            connection.request("POST", "/console/session", json.dumps({"token": token}), OWN)
            response = connection.getresponse()
            response.read()
            cookie = (response.headers["Set-Cookie"] or "").partition(";")[0]
            for path in WATCHED:
                watching = http.client.HTTPSConnection(
                    *server.address, context=ssl._create_unverified_context()
                )
                stack.callback(watching.close)
                watching.request(
                    "GET", f"/console/k8s/tenants/acme{path}?watch=1", headers={**OWN, "Cookie": cookie}
                )
                assert watching.getresponse().status == 200
        return gets_per_second(caller, seconds) / alone


def run(quick: bool) -> dict[str, float | int | None]:
    rounds = 3 if quick else 10
    with tempfile.TemporaryDirectory() as folder, LocalServer(Path(folder) / "server") as server:
        acme = server.make_tenant("acme")
        fill(acme, ROWS, PODS)
        token = browser.viewer_token(server, "acme", "admin-role")
        host, port = server.address
        url = f"https://{host}:{port}"
        with browser.chromium() as running:
            page = browser.open_page(running)
            browser.sign_in(page, url, token)
            table, frame = table_ms(page, url, ROWS)
            map_took, map_frame = map_ms(page, url, PODS)
            ring0 = browser.open_page(running)
            server.make_namespace("system", "default")
            browser.sign_in(ring0, url, browser.viewer_token(server, "system", "cluster-admin"))
            return {
                "first_paint_ms": round(first_paint_ms(page, url, rounds), 1),
                "bundle_gzip_kb": round(first_load_kb(), 1),
                "table_5000_ms": round(table, 1),
                "table_5000_frame_ms_max": round(frame, 1),
                "map_1000_ms": round(map_took, 1),
                "map_frame_ms_max": round(map_frame, 1),
                "event_to_screen_ms": round(event_ms(page, url, acme, rounds * 3), 1),
                "gets_with_100_consoles_ratio": round(gets_ratio(acme, server, token, rounds), 2),
                "axe_serious": axe_serious(ring0, url),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    if why := browser.missing():
        print(f"bench.console is left out: {why}", file=sys.stderr)
        return
    figures = run(arguments.quick)
    for name, value in figures.items():
        print(f"{name:<32}{value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
