"""Exit codes that scripts rely on, where kubeconfigs come from, and this machine's addresses."""

import shutil
from pathlib import Path

import pytest
import typer

from alcove.api.errors import ApiError, Conflict, Forbidden, NotFound, Unauthorized
from alcove.cli import addresses, places
from alcove.cli.connection import ConnectionFailed
from alcove.cli.failures import Code, Failure, told


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Failure("x"), Code.FAILED),
        (Failure("x", Code.TIMEOUT), Code.TIMEOUT),
        (ConnectionFailed("x"), Code.UNREACHABLE),
        (NotFound("x"), Code.NOT_FOUND),
        (Forbidden("x"), Code.FORBIDDEN),
        (Unauthorized("x"), Code.FORBIDDEN),
        (Conflict("x"), Code.FAILED),
        (ApiError("x"), Code.FAILED),
        (FileNotFoundError(2, "No such file", "x"), Code.FAILED),
    ],
)
def test_every_failure_has_its_code_and_a_message(
    error: Exception, code: Code, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as done, told():
        raise error
    assert done.value.exit_code == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and "x" in said.err


def test_a_fault_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), told():
        raise ZeroDivisionError


def test_the_kubeconfig_is_the_environments_then_the_clusters_then_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "XDG_STATE_HOME", places.NAME_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert places.default_kubeconfig() == tmp_path / ".kube" / "config"
    own = tmp_path / ".local" / "state" / "alcove" / "admin.kubeconfig"
    own.parent.mkdir(parents=True)
    own.touch()
    assert places.default_kubeconfig() == own
    blue = own.parent / "blue" / "admin.kubeconfig"
    blue.parent.mkdir()
    blue.touch()
    monkeypatch.setenv(places.NAME_VARIABLE, "blue")
    assert places.default_kubeconfig() == blue
    monkeypatch.setenv("KUBECONFIG", "/one:/two")
    assert places.default_kubeconfig() == Path("/one")


@pytest.mark.skipif(not shutil.which("ip"), reason="needs ip")
def test_the_address_towards_a_server_and_its_device() -> None:
    assert addresses.towards("https://127.0.0.1:6443") == "127.0.0.1"
    assert addresses.device_of("127.0.0.1") == "lo"
    with pytest.raises(Failure, match="--underlay"):
        addresses.device_of("203.0.113.77")
