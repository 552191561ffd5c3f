"""Files that a node creates for its pods."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from alcove.agent.pods import files
from alcove.agent.runtime.config import BindMount
from alcove.api.objects import Object


def pod(name: str = "web", **spec: object) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("made", "hostname", "uts"),
    [
        (pod(), "web", "web"),
        (pod("x" * 80), "x" * 63, "x" * 63),
        (pod("a" * 62 + "-b"), "a" * 62, "a" * 62),
        (pod(hostname="me"), "me", "me"),
        (pod(hostname="me", subdomain="s"), "me", "me"),
        (pod(subdomain="s", setHostnameAsFQDN=True), "web", "web.s.default.svc.cluster.local"),
        (pod(hostname="me", subdomain="s", hostnameOverride="own.example"), "own.example", "own.example"),
    ],
)
def test_names(made: Object, hostname: str, uts: str) -> None:
    assert files.hostname_of(made) == hostname
    assert files.uts_name(made, "cluster.local") == uts


HOSTS = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIASES = "\n# Entries added by HostAliases.\n10.1.1.1\tone\ttwo\n"


@pytest.mark.parametrize(
    ("spec", "own"),
    [({}, "10.0.0.2\tweb\n"), ({"subdomain": "s"}, "10.0.0.2\tweb.s.default.svc.cluster.local\tweb\n")],
)
def test_hosts_are_written_as_the_kubelet_writes_them(spec: Object, own: str) -> None:
    assert files.hosts(pod(**spec), ("10.0.0.2",), "cluster.local") == HOSTS + own


def test_hosts_have_all_addresses_and_aliases() -> None:
    aliases = [{"ip": "10.1.1.1", "hostnames": ["one", "two"]}]
    text = files.hosts(pod(hostAliases=aliases), ("10.0.0.2", "fd00::2"), "cluster.local")
    assert text == HOSTS + "10.0.0.2\tweb\nfd00::2\tweb\n" + ALIASES


def test_a_pod_in_the_nodes_network_has_the_nodes_hosts(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("10.9.9.9 registry\n")
    aliases = [{"ip": "10.1.1.1", "hostnames": ["one", "two"]}]
    made = pod(hostNetwork=True, hostAliases=aliases)
    text = files.hosts(made, ("10.0.0.2",), "cluster.local", tmp_path / "hosts")
    header = "# Kubernetes-managed hosts file (host network).\n"
    assert text == header + "10.9.9.9 registry\n" + ALIASES
    assert files.hosts(made, (), "cluster.local", tmp_path / "none") == header + ALIASES


def test_hosts_have_an_overridden_name_and_no_other() -> None:
    text = files.hosts(pod(subdomain="s", hostnameOverride="own.example"), ("10.0.0.2",), "cluster.local")
    assert "10.0.0.2\town.example\n" in text


def test_files_that_are_mounted_keep_their_place(tmp_path: Path) -> None:
    files.write(tmp_path, {"hosts": "one"})
    before = (tmp_path / "hosts").stat().st_ino
    files.write(tmp_path, {"hosts": "two"})
    assert (tmp_path / "hosts").read_text() == "two"
    assert (tmp_path / "hosts").stat().st_ino == before


@pytest.mark.parametrize("size_bytes", [60 << 30, 5])
def test_what_a_pod_makes_of_its_files_cannot_hold_up_the_node(tmp_path: Path, size_bytes: int) -> None:
    """A sparse file of 60 GB was read whole; one that is not text failed the pod for good."""
    files.write(tmp_path, {"hosts": "one"})
    with (tmp_path / "hosts").open("wb") as file:
        file.write(b"\xff\xfe")
        file.truncate(size_bytes)
    files.write(tmp_path, {"hosts": "one"})
    assert (tmp_path / "hosts").read_bytes() == b"one"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_pods_files_have_limits_for_bytes_and_number(tmp_path: Path) -> None:
    space = tmp_path / "pod" / "files"
    files.mount_space(space)
    files.mount_space(space)
    try:
        files.write(space, {"hosts": "one"})
        with pytest.raises(OSError, match="No space left"), (space / "hosts").open("wb") as file:
            for _ in range(files.SPACE_BYTES_MAX >> 16):
                file.write(bytes(1 << 16))
            file.write(bytes(1 << 16))
        message = files.make_message(space / "messages", "a.0")
        assert files.termination_message({}, message, tmp_path / "none", 1) == ""
        with pytest.raises(OSError, match="No space left"):
            for number in range(files.SPACE_FILES_MAX):
                (space / str(number)).touch()
    finally:
        files.unmount_space(space)
    files.unmount_space(space)
    assert list(space.iterdir()) == []


def test_what_the_container_mounts_itself_counts(tmp_path: Path) -> None:
    own = [BindMount("/x", "/etc/hosts")]
    assert {each.destination for each in files.mounts(tmp_path, own)} == {"/etc/resolv.conf", "/etc/hostname"}


def test_termination_messages_are_limited_and_follow_no_links(tmp_path: Path) -> None:
    path = files.make_message(tmp_path, "a.0")
    assert path.stat().st_mode & 0o777 == 0o666
    path.write_text("x" * 10_000)
    assert len(files.termination_message({}, path, tmp_path / "none", 1)) == files.MESSAGE_BYTES_MAX
    path.unlink()
    (tmp_path / "secret").write_text("secret")
    path.symlink_to(tmp_path / "secret")
    assert files.termination_message({}, path, tmp_path / "none", 1) == ""


def test_without_a_termination_message_a_failure_has_the_end_of_the_log(tmp_path: Path) -> None:
    path, log = files.make_message(tmp_path, "a.0"), tmp_path / "0.log"
    log.write_text("".join(f"2026-01-01T00:00:00Z stderr F line {number}\n" for number in range(500)))
    asked = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    assert files.termination_message(asked, path, log, 0) == ""
    said = files.termination_message(asked, path, log, 1)
    assert said.endswith("line 499\n") and len(said) <= files.FROM_LOG_BYTES_MAX
    assert files.termination_message({}, path, log, 1) == ""


@pytest.mark.parametrize(
    ("log_text", "message"),
    [
        ("2026-01-01T00:00:00Z stdout P DONE\n", "DONE"),
        ("2026-01-01T00:00:00Z stdout F DONE\n", "DONE\n"),
        ("2026-01-01T00:00:00Z stdout P DO\n2026-01-01T00:00:00Z stdout F NE\n", "DONE\n"),
        ("2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stderr P two\n", "one\ntwo"),
        ("2026-01-01T00:00:00Z stdout F one\nnot an entry\n2026-01-01T00:00", "one\n"),
    ],
)
def test_a_message_from_the_log_ends_as_the_containers_output_ended(
    tmp_path: Path, log_text: str, message: str
) -> None:
    path, log = files.make_message(tmp_path, "a.0"), tmp_path / "0.log"
    log.write_text(log_text)
    asked = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    assert files.termination_message(asked, path, log, 1) == message
