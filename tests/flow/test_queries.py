"""Every query of the alerts and of the dashboard in `deploy/` finds its series in what real processes export."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from alcove.api import usage
from alcove.api.usage import UsageAmounts
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.claims import free_port
from alcove.testing.controlplane import LocalControllers
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import LocalServer, wait_until

REPORTS = "/apis/usage.alcove.io/v1alpha1/usagereports"
DEPLOY = Path(__file__).parents[2] / "deploy"
CALLS = frozenset(
    [
        "absent",
        "by",
        "for",
        "histogram_quantile",
        "increase",
        "le",
        "max",
        "min_over_time",
        "rate",
        "sum",
        "time",
        "topk",
        "without",
    ]
)


def _metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


NO_SAMPLES = ("alcove_drops", "alcove_exported_flows", "alcove_network")
Exported = dict[str, set[str]]
"""Every name of a series, with the labels it was seen with."""


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Exported]]:
    """Asks all processes of a cluster."""
    folder = tmp_path_factory.mktemp("queries")
    ports = [free_port() for _ in range(3)]
    options = [("--probe-port", str(port)) for port in ports]
    with LocalServer(folder) as server:
        server.system.post("/api/v1/tenants", {"metadata": {"name": "acme"}})
        # Nodes report what tenants have used after an interval; the controllers sum it up at their start.
        hours = usage.encode_hours({usage.hour_of(time.time()): {"acme": UsageAmounts(pod_seconds=1)}})
        server.as_node("n").post(REPORTS, {"metadata": {"name": "n"}, "spec": {"hours": hours}})

        def own() -> str:
            return server.system.request("GET", "/metrics").body.decode()

        with (
            LocalControllers(server, folder, *options[0]),
            LocalScheduler(server.admin_kubeconfig, folder, *options[1]),
            LocalAgent(node_kubeconfig(server, "n"), folder / "node", "n", "--hollow", *options[2]),
        ):
            yield lambda: _series([own(), *map(_metrics, ports)])


def _series(texts: list[str]) -> Exported:
    given = ("job", "instance")  # By Prometheus itself.
    found: Exported = {"up": set(given)}
    for text in texts:
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found.setdefault(name, set())
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels, given)
    return found


def queries() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    panels = json.loads((DEPLOY / "grafana" / "alcove.json").read_text())["panels"]
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return alerts + [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_query_names_series_and_labels_that_exist(export: Callable[[], Exported]) -> None:
    asked = queries()
    assert len(asked) > 30
    missing: list[str] = []

    def is_complete() -> bool:
        missing[:] = _missing(asked, export())
        return not missing

    try:
        # Something has to be reconciled and scheduled: series with labels have samples then.
        wait_until(is_complete)
    except AssertionError:
        pytest.fail("\n".join(missing))


def _missing(asked: list[str], exported: Exported) -> list[str]:
    """Queries, with what they name and nobody exports."""
    missing = []
    for query in asked:
        plain = re.sub(r"\bby \([^)]*\)|\[[^\]]*\]|\"[^\"]*\"|\{[^}]*\}", "", query)
        names = set(re.findall(r"[a-z_]{2,}", plain)) - CALLS
        assert names, query
        if unknown := names - set(exported):
            missing.append(f"{query}: {sorted(unknown)}")
            continue
        grouped = re.findall(r"\bby \(([^)]*)\)", query)
        labels = {label.strip() for group in grouped for label in group.split(",")}
        labels |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
        known = set().union(*(exported[name] for name in names))
        # A hollow node has no packets: these series have a name here, and no samples.
        if not any(name.startswith(NO_SAMPLES) for name in names) and not labels <= known:
            missing.append(f"{query}: {sorted(labels - known)}")
    return missing
