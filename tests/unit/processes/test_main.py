"""`alcove --help` is quick because nothing heavy is loaded until a verb needs it."""

import subprocess
import sys

import pytest

HEAVY = {"asyncio", "ssl", "cryptography", "uvloop", "rich", "yaml", "orjson", "numpy", "kubernetes_validate"}


@pytest.mark.parametrize("words", [("--help",), ("tenant", "--help"), ("up", "--help")])
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        "from alcove.processes.main import app\n"
        f"try:\n    app({list(words)!r})\n"
        "except SystemExit:\n    pass\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rpartition("LOADED ")[2].split())
    assert "Usage" in done.stdout and not loaded & HEAVY
