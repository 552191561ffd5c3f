"""What `deploy/` holds for production is true: flags exist, units and rules are valid, processes are confined."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from alcove.processes.main import app
from alcove.testing.units import expand, read_environment, read_unit

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(DEPLOY.glob("systemd/*.service"))
MACHINES = sorted(path for path in DEPLOY.glob("example/*") if path.is_dir())
EXPOSURE_MAX = 20
"""Of 100, as `systemd-analyze security` counts."""


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda path: path.name)
@pytest.mark.parametrize(
    "unit", [each for each in UNITS if "etcd" not in each.name], ids=lambda path: path.stem
)
def test_a_unit_uses_flags_that_exist(unit: Path, machine: Path) -> None:
    program, verb, *options = expand(read_unit(unit)["ExecStart"], read_environment(machine / "alcove.env"))
    assert program == "/opt/alcove/bin/alcove" and unit.stem == f"alcove-{verb}"
    command: Any = typer.main.get_command(app)
    command.commands[verb].make_context(verb, options)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_started_again_for_good(unit: Path) -> None:
    found = read_unit(unit)
    assert (found["Restart"], found["StartLimitIntervalSec"]) == ("always", "0")
    assert int(found["LimitNOFILE"]) >= 65536
    if unit.stem == "alcove-agent":
        assert found["KillMode"] == "process", "pods outlive their agent"
    else:
        confined = (found["User"], found["NoNewPrivileges"], found["ProtectSystem"])
        assert confined == ("alcove", "yes", "strict")


@needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    here = tmp_path / unit.name
    # It wants programs that exist.
    here.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", unit.read_text(), flags=re.M))
    done = subprocess.run(["systemd-analyze", "verify", here], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and str(here) not in done.stderr, done.stderr
    if unit.stem != "alcove-agent":
        words = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(here)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@needs("promtool")
def test_the_alert_rules_fire_when_they_should() -> None:
    folder = DEPLOY / "prometheus"
    for words in (
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts-test.yaml"),
        ("check", "config", "--syntax-only", "prometheus.yaml"),
    ):
        done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_dashboard_panel_is_where_no_other_is() -> None:
    panels = json.loads((DEPLOY / "grafana" / "alcove.json").read_text())["panels"]
    for key in ("id", "title"):
        assert len({panel[key] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])
