"""The README's commands, as written and in order, in a home of their own; then nothing is left of them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from alcove.testing import snapshot
from alcove.testing.machine import lacking

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
NOT_HERE = ("make test",)
"""What runs this very test."""
NEEDS_PODS = (" exec ", "connectivity test", "rollout status")
"""What only real nodes can do."""


def commands() -> list[str]:
    """Every line of every shell block, without its comment."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    return [re.sub(r"\s+# .*", "", line) for line in lines if line.strip()]


def test_there_are_commands_and_the_two_come_first() -> None:
    assert commands()[:2] == ["make up", "make test"]
    assert len(commands()) > 10


@pytest.mark.alone
@pytest.mark.timeout(400)
def test_the_readmes_commands_work_as_written(tmp_path: Path) -> None:
    script = _script(not lacking())
    before = snapshot.look(str(tmp_path))
    home = tmp_path / "home"
    home.mkdir()
    # Files that commands write go to a folder of this test's; what they read is in the checkout.
    work = tmp_path / "work"
    work.mkdir()
    for each in (".venv", "Makefile", "examples", "deploy", "requirements.lock", "pyproject.toml"):
        (work / each).symlink_to(ROOT / each)
    environment = {
        key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "ALCOVE_NAME")
    }
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=work,
        env={**environment, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
        capture_output=True,
        text=True,
        timeout=220,
    )
    data = home / "state" / "alcove"
    was_left = data.exists()
    subprocess.run([ROOT / ".venv/bin/alcove", "destroy", "--yes", "--data", data], capture_output=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not was_left
    assert snapshot.left_since(before, str(tmp_path), 90) == []


def _script(real: bool) -> str:
    """The environment is there already, and another cluster may have the usual port: the next is taken."""
    lines = []
    for command in commands():
        if command in NOT_HERE or (not real and any(word in command for word in NEEDS_PODS)):
            continue
        lines.append(command.replace("make up", "make --assume-old=.venv/ready --assume-old=setup up"))
    return "\n".join(lines)
