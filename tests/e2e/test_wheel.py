"""A release: what is in the wheel, and that it works in an empty environment outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import alcove
from alcove.dataplane.build import find_compiler, object_name
from alcove.dataplane.errors import CompilerMissing

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make dist` does it: an sdist, and the wheel from that."""
    try:
        find_compiler()
    except CompilerMissing as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    (found,) = folder.glob("*.whl")
    assert sdist.name == f"alcove-{alcove.__version__}.tar.gz"
    return found


def test_the_wheel_has_everything_that_runs_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path)
    sources = tmp_path / "alcove" / "bpf"
    assert f"alcove/bpf/{object_name(sources)}" in names, "the object is that of the sources beside it"
    assert {"alcove/py.typed", "alcove/api/protobuf/fields.txt", "alcove/deploy/packages"} <= names
    assert {f"alcove/{path.relative_to(ROOT / 'src/alcove')}" for path in _modules()} <= names
    above = {name.partition("/")[0] for name in names}
    assert above == {"alcove", f"alcove-{alcove.__version__}.dist-info"}


def test_no_path_of_the_builder_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            assert str(ROOT).encode() not in archive.read(name), name


def _modules() -> list[Path]:
    return list((ROOT / "src" / "alcove").rglob("*.py"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    install = [str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [venv / "bin" / words[0], *words[1:]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    for program in ("alcove", "alcove-cni", "kubectl-tenant"):
        assert run(program, "--version").stdout == f"{program} {alcove.__version__}\n"
    completed = run("alcove", "doctor", "-o", "json")
    assert "shipped with the package" in completed.stdout, completed.stderr
    assert run("pip", "check").returncode == 0
