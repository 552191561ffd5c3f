"""Exit codes that scripts rely on, where kubeconfigs come from, and this machine's addresses."""

import shutil
from pathlib import Path

import pytest
import typer

from alcove.api.errors import ApiError, Conflict, Forbidden, NotFound, Unauthorized
from alcove.cli import data_directories, enrolment
from alcove.cli.connection import ConnectionFailed
from alcove.cli.errors import CliError, ExitCode, exit_on_error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CliError("x"), ExitCode.FAILED),
        (CliError("x", ExitCode.TIMEOUT), ExitCode.TIMEOUT),
        (ConnectionFailed("x"), ExitCode.UNREACHABLE),
        (NotFound("x"), ExitCode.NOT_FOUND),
        (Forbidden("x"), ExitCode.FORBIDDEN),
        (Unauthorized("x"), ExitCode.FORBIDDEN),
        (Conflict("x"), ExitCode.FAILED),
        (ApiError("x"), ExitCode.FAILED),
        (FileNotFoundError(2, "No such file", "x"), ExitCode.FAILED),
    ],
)
def test_every_failure_has_its_code_and_a_message(
    error: Exception, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as done, exit_on_error():
        raise error
    assert done.value.exit_code == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ") and "x" in captured.err


def test_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), exit_on_error():
        raise ZeroDivisionError


def test_the_kubeconfig_is_the_environments_then_the_clusters_then_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "XDG_STATE_HOME", data_directories.NAME_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert data_directories.default_kubeconfig() == tmp_path / ".kube" / "config"
    own = tmp_path / ".local" / "state" / "alcove" / "admin.kubeconfig"
    own.parent.mkdir(parents=True)
    own.touch()
    assert data_directories.default_kubeconfig() == own
    blue = own.parent / "blue" / "admin.kubeconfig"
    blue.parent.mkdir()
    blue.touch()
    monkeypatch.setenv(data_directories.NAME_VARIABLE, "blue")
    assert data_directories.default_kubeconfig() == blue
    monkeypatch.setenv("KUBECONFIG", "/one:/two")
    assert data_directories.default_kubeconfig() == Path("/one")


@pytest.mark.skipif(not shutil.which("ip"), reason="needs ip")
def test_the_address_towards_a_server_and_its_device() -> None:
    assert enrolment.towards("https://127.0.0.1:6443") == "127.0.0.1"
    assert enrolment.device_of("127.0.0.1") == "lo"
    with pytest.raises(CliError, match="--underlay"):
        enrolment.device_of("203.0.113.77")
