"""Set-up on machines that are not as they should be: an old, held or pinned gVisor, mirrors without backports, no network,
no root, a full disk. `deploy/packages` runs as it is; apt and gVisor are scripts that note how they were called, because
no test may change what is installed on this machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from alcove.testing import needs

SCRIPT = Path(__file__).parents[2] / "deploy" / "packages"
PLAIN = (
    *("awk", "basename", "bash", "cat", "chmod", "dirname", "grep", "head", "mktemp", "printf", "python3", "readlink"),
    *("rm", "sed", "seq", "sh", "sort", "tail", "timeout", "touch", "true", "uname", "mkdir"),
)  # fmt: skip
OTHERS = ("clang", "tc", "nft", "setpriv", "losetup", "mkfs.ext4", "iperf3", "sockperf")
VERSIONS = {
    "crun": "1.8",
    "runc": "1.1",
    "conmon": "2.1.6",
    "skopeo": "1.9",
    "umoci": "0.4.7",
    "kubectl": "1.20.2",
}
OLD, NEW = "0.0~20221219.0-2", "0.0~20240729.0-4~bpo12+2"
RUNSC = """\
case "$(cat {state}/installed 2>/dev/null)" in *2024*) exit 0 ;; esac
echo "unknown platform: systrap" >&2; exit 128
"""
APT_GET = """\
case " $* " in
*" indextargets "*) echo "bookworm http://mirror.example/debian" ;;
*" update "*) [ ! -e {state}/offline ] || {{ echo "E: Failed to fetch http://mirror.example" >&2; exit 100; }} ;;
*" install "*)
    [ ! -e {state}/full ] || {{ echo "E: You don't have enough free space in /var/cache/apt/archives/." >&2; exit 100; }}
    [ ! -e {state}/offline ] || {{ echo "E: Failed to fetch http://mirror.example" >&2; exit 100; }}
    case " $* " in
    *" kubernetes-client "*) [ ! -e {state}/ubuntu ] || {{ echo "E: Unable to locate package" >&2; exit 100; }} ;;
    *" -t bookworm-backports runsc "*) [ -e {state}/pinned ] || echo {new} >{state}/installed; cp_runsc ;;
    *" runsc "*) cat {state}/candidate >{state}/installed; cp_runsc ;;
    esac ;;
esac
"""
APT_CACHE = """\
case $1 in
policy) echo "  Candidate: $(cat {state}/candidate)" ;;
madison)
    [ ! -e {state}/backports ] && [ ! -e {state}/parts/alcove-backports.sources ] || [ -e {state}/no-backports ] ||
        echo " runsc | {new} | http://mirror.example/debian bookworm-backports/main amd64 Packages"
    seq 30000  # apt has more to say than anybody reads.
    ;;
esac
"""


class Bare:
    """A machine of scripts: `state` is what it has."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.state = folder / "bin", folder / "state"
        self.parts, self.calls = self.state / "parts", self.state / "calls"
        self.bin.mkdir()
        self.parts.mkdir(parents=True)
        (folder / "os-release").write_text("VERSION_CODENAME=bookworm\n")
        for name in PLAIN:
            (self.bin / name).symlink_to(shutil.which(name) or pytest.skip(f"needs {name}"))
        for name in OTHERS:
            self.script(name, "exit 0")
        for name, version in VERSIONS.items():
            self.script(name, f"echo {version}")
        self.script("etcd", "echo 3.4.23")
        self.script("busybox", "exit 0")
        self.script("ldconfig", "echo libpcap.so.0.8")
        self.script("id", "echo 0")
        self.script("unshare", 'while [ "$1" != sh ]; do shift; done; exec sh -c "${3#*&& }"')
        self.script(
            "apt-get", self._filled(APT_GET.replace("cp_runsc", f"cp {folder}/runsc {self.bin}/runsc"))
        )
        self.script("apt-cache", self._filled(APT_CACHE))
        self.script("apt-config", f"echo folder={self.parts}/")
        self.script("apt-mark", f"cat {self.state}/held 2>/dev/null")
        self.script("dpkg", 'case "$1" in --audit) ;; esac')
        self.script("dpkg-query", f"cat {self.state}/installed")
        (self.bin / "cp").symlink_to(shutil.which("cp") or "")
        (folder / "runsc").write_text("#!/bin/sh\n" + self._filled(RUNSC))
        (folder / "runsc").chmod(0o755)
        self._folder = folder
        self.has("candidate", OLD)

    def _filled(self, text: str) -> str:
        return text.format(state=self.state, old=OLD, new=NEW)

    def script(self, name: str, text: str) -> None:
        note = f'echo "{name} $*" >>{self.calls}\n' if name.startswith("apt-") else ""
        (self.bin / name).write_text(f"#!/bin/sh\n{note}{text}\n")
        (self.bin / name).chmod(0o755)

    def has(self, name: str, text: str = "") -> None:
        (self.state / name).write_text(f"{text}\n")

    def has_gvisor(self, version: str) -> None:
        self.has("installed", version)
        shutil.copy(self._folder / "runsc", self.bin / "runsc")

    def set_up(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        self.calls.write_text("")
        environment = {
            "PATH": str(self.bin),
            "TMPDIR": str(self._folder),
            "ALCOVE_OS_RELEASE": str(self._folder / "os-release"),
        }
        return subprocess.run(
            [SCRIPT, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def lines(self, tool: str) -> list[str]:
        """What set-up says about the tool."""
        done = self.set_up()
        assert done.returncode == 0, done.stderr
        return [line for line in done.stderr.splitlines() if f"without {tool}," in line]


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare(tmp_path)


def test_a_release_whose_gvisor_is_too_old_gets_that_of_its_backports(bare: Bare) -> None:
    assert bare.lines("runsc") == []
    assert "Suites: bookworm-backports" in (bare.parts / "alcove-backports.sources").read_text()
    assert "install -y --no-install-recommends -t bookworm-backports runsc" in bare.calls.read_text()
    # A second run finds that everything works, and leaves apt alone.
    bare.set_up()
    assert "-t bookworm-backports" not in bare.calls.read_text()


def test_an_old_gvisor_that_is_installed_is_replaced(bare: Bare) -> None:
    bare.has_gvisor(OLD)
    assert bare.lines("runsc") == []
    assert NEW in (bare.state / "installed").read_text()


def test_a_release_with_a_good_gvisor_needs_no_backports(bare: Bare) -> None:
    bare.has("candidate", "0.0~20240729.0-4+b7")
    assert bare.lines("runsc") == []
    assert list(bare.parts.iterdir()) == []


def test_backports_that_are_configured_already_are_not_added_again(bare: Bare) -> None:
    bare.has("backports")
    assert bare.lines("runsc") == []
    assert list(bare.parts.iterdir()) == []


def test_a_held_gvisor_is_left_alone_and_how_to_free_it_is_said(bare: Bare) -> None:
    bare.has_gvisor(OLD)
    bare.has("held", "runsc")
    [line] = bare.lines("runsc")
    assert "tenants' pods" in line and "apt-mark unhold runsc" in line
    assert " runsc" not in bare.calls.read_text().replace("apt-mark", "")
    bare.has("held", "")
    assert bare.lines("runsc") == []


def test_a_pinned_gvisor_is_said_to_be_pinned(bare: Bare) -> None:
    bare.has_gvisor(OLD)
    bare.has("pinned")
    [line] = bare.lines("runsc")
    assert "pinned" in line and "/etc/apt/preferences" in line


def test_a_mirror_without_backports_is_left_as_it_was(bare: Bare) -> None:
    bare.has("no-backports")
    [line] = bare.lines("runsc")
    assert "no backports" in line and "20221219" in line
    assert list(bare.parts.iterdir()) == []


def test_a_gvisor_of_no_package_is_named(bare: Bare) -> None:
    bare.has_gvisor(OLD)
    bare.script("dpkg", '[ "$1" != -S ]')
    [line] = bare.lines("runsc")
    assert f"{bare.bin}/runsc" in line and "remove it" in line


def test_without_a_network_a_second_run_goes_on(bare: Bare) -> None:
    bare.has("offline")
    [line] = bare.lines("runsc")
    assert "cannot be reached" in line and "make setup" in line
    (bare.state / "offline").unlink()
    assert bare.lines("runsc") == []


def test_a_full_disk_is_said_with_what_to_do(bare: Bare) -> None:
    bare.has("full")
    (bare.bin / "etcd").unlink()
    [line] = bare.lines("etcd")
    assert "disk is full" in line and "make setup" in line
    [line] = bare.lines("runsc")
    assert "disk is full" in line


def test_a_release_gets_no_compiler_and_is_told_its_own_command(bare: Bare) -> None:
    bare.has("offline")
    for name in ("clang", "etcd", "iperf3", "skopeo"):
        (bare.bin / name).unlink()
    text = bare.set_up("nodes").stderr
    assert [line.split()[2] for line in text.splitlines()] == ["runsc,", "skopeo,"]
    assert "run `alcove setup` again" in text
    assert "clang" not in bare.calls.read_text()


def test_what_a_cut_short_installation_left_is_finished_first(bare: Bare) -> None:
    done = bare.state / "configured"
    bare.script("dpkg", f'case "$1" in --audit) [ -e {done} ] || echo half ;; --configure) : >{done} ;; esac')
    bare.set_up()
    assert done.exists()


def test_without_root_nothing_is_installed_and_each_lack_is_one_line(bare: Bare) -> None:
    bare.script("id", "echo 1000")
    (bare.bin / "kubectl").unlink()
    done = bare.set_up()
    assert done.returncode == 0 and bare.calls.read_text() == ""
    warnings = {
        line.split(",")[0].removeprefix("set-up: without "): line for line in done.stderr.splitlines()
    }
    assert {"kubectl", "runsc"} <= warnings.keys()
    assert all("as root" in line and line.startswith("set-up: without ") for line in warnings.values())


def test_a_tool_that_is_too_old_is_not_taken_for_one_that_works(bare: Bare) -> None:
    bare.script("kubectl", "echo 'Client Version: v1.9.0'")
    [line] = bare.lines("kubectl")
    assert "too old" in line


def test_a_package_that_the_release_lacks_keeps_no_other_out(bare: Bare) -> None:
    bare.has("ubuntu")
    for name in ("kubectl", "etcd"):
        (bare.bin / name).unlink()
    [line] = bare.lines("kubectl")
    assert "no package of that name" in line and "kubernetes.io" in line
    assert "install -y --no-install-recommends etcd-server" in bare.calls.read_text()


def test_set_up_ends_where_there_is_no_python_to_use(bare: Bare) -> None:
    (bare.bin / "python3").unlink()
    bare.script("python3", "exit 1")
    done = bare.set_up()
    assert done.returncode == 1 and "Python 3.11 or newer" in done.stderr


def test_a_temporary_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "missing")}
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "free some space" in done.stderr


PYTHON = """\
#!/bin/sh
echo "python $*" >>calls
case "$*" in
"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*"pip install"*) [ ! -e full ] || { echo "ERROR: No space left on device" >&2; exit 1; } ;;
esac
"""


@pytest.mark.skipif(bool(needs.tools("make")), reason=needs.tools("make"))
def test_an_environment_that_was_cut_short_is_made_anew_and_a_whole_one_is_kept(tmp_path: Path) -> None:
    shutil.copy(SCRIPT.parents[1] / "Makefile", tmp_path)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "bin").mkdir()
    for path, text in (("deploy/packages", "#!/bin/sh\necho packages >>calls\n"), ("bin/python3", PYTHON)):
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    for name in ("requirements.lock", "pyproject.toml", "full"):
        (tmp_path / name).touch()

    def make() -> "tuple[int, str, list[str]]":
        (tmp_path / "calls").write_text("")
        environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["make", "setup"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr, (tmp_path / "calls").read_text().splitlines()

    code, message, _ = make()
    assert code and "run `make setup` again" in message and not (tmp_path / ".venv" / "ready").exists()
    (tmp_path / "full").unlink()
    code, _, calls = make()
    assert code == 0 and calls[:2] == ["packages", "python -m venv --clear .venv"]
    # Tools are looked at every time; the environment is left alone, and brought up to date when the lock changes.
    assert make()[2] == ["packages"]
    (tmp_path / ".venv" / "ready").touch()
    os.utime(tmp_path / ".venv" / "ready", (1, 1))
    assert [call for call in make()[2] if "venv" in call or "install" in call] == [
        "python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock",
        "python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .",
    ]
