"""Files from ConfigMaps and Secrets, by tables."""

import base64
from typing import Any

import pytest

from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.files import (
    PATH_LEVELS_MAX,
    VolumeFile,
    checked,
    for_group,
    from_config_map,
    from_secret,
    memory_bytes,
)
from alcove.api.objects import Object

MAP: Object = {"data": {"a": "text", "b": "b"}, "binaryData": {"c": base64.b64encode(b"\0\xff").decode()}}
SECRET: Object = {"data": {"key": base64.b64encode(b"hidden").decode()}}


def test_everything_without_items() -> None:
    assert from_config_map(MAP, {"name": "m"}, 0o640) == {
        "a": VolumeFile(b"text", 0o640),
        "b": VolumeFile(b"b", 0o640),
        "c": VolumeFile(b"\0\xff", 0o640),
    }
    assert from_secret(SECRET, {"secretName": "s"}, 0o400) == {"key": VolumeFile(b"hidden", 0o400)}


def test_items_choose_paths_and_modes() -> None:
    items = [{"key": "a", "path": "deep/er/a"}, {"key": "c", "path": "c", "mode": 0o755}]
    assert from_config_map(MAP, {"items": items}, 0o644) == {
        "deep/er/a": VolumeFile(b"text", 0o644),
        "c": VolumeFile(b"\0\xff", 0o755),
    }


@pytest.mark.parametrize(
    ("call", "found", "source", "message"),
    [
        (from_config_map, None, {"name": "m"}, 'configmap "m" not found'),
        (from_secret, None, {"secretName": "s"}, 'secret "s" not found'),
        (from_secret, None, {"name": "s"}, 'secret "s" not found'),
        (from_config_map, MAP, {"items": [{"key": "x", "path": "x"}]}, "non-existent config key: x"),
        (from_secret, SECRET, {"items": [{"key": "x", "path": "x"}]}, "non-existent secret key: x"),
    ],
)
def test_what_is_missing(call: Any, found: Object | None, source: Object, message: str) -> None:
    with pytest.raises(VolumeFailure, match=message):
        call(found, source, 0o644)
    assert call(found, {**source, "optional": True}, 0o644) == {}


def test_what_is_no_base64() -> None:
    with pytest.raises(VolumeFailure, match="secret s"):
        from_secret({"data": {"key": "%%%"}}, {"secretName": "s"}, 0o644)


@pytest.mark.parametrize(
    "path", ["", ".", "/etc/passwd", "..", "../x", "a/../../x", "..data", "..2026/x", "a\0b"]
)
def test_paths_that_leave_the_volume(path: str) -> None:
    with pytest.raises(VolumeFailure, match="invalid path"):
        checked(path)
    with pytest.raises(VolumeFailure, match="invalid path"):
        from_config_map(MAP, {"items": [{"key": "a", "path": path}]}, 0o644)


@pytest.mark.parametrize(
    ("path", "expected"), [("a", "a"), ("a//b", "a/b"), ("./a", "a"), ("a/..b", "a/..b")]
)
def test_plain_paths(path: str, expected: str) -> None:
    assert checked(path) == expected


def test_modes_are_only_permissions_and_the_group_can_read() -> None:
    files = from_config_map(MAP, {"items": [{"key": "a", "path": "a", "mode": 0o4700}]}, 0o644)
    assert files == {"a": VolumeFile(b"text", 0o700)}
    assert for_group(files, 5) == {"a": VolumeFile(b"text", 0o740)}
    assert for_group(files, None) == files


def test_small_files_and_deep_folders_are_counted_by_what_they_take() -> None:
    content = VolumeFile(b"x", 0o644)
    assert memory_bytes({}) == 0
    assert memory_bytes({"a": VolumeFile(b"", 0o644)}) == 2_048
    assert memory_bytes({"a": content, "b": VolumeFile(bytes(4_097), 0o644)}) == 3 * 4_096 + 4 * 1_024
    assert memory_bytes({"/".join("abcd"): content}) == 4_096 + 5 * 1_024


def test_a_path_has_a_limited_number_of_names() -> None:
    assert checked("/".join("a" * PATH_LEVELS_MAX))
    with pytest.raises(VolumeFailure, match="more than 32 names"):
        checked("/".join("a" * (PATH_LEVELS_MAX + 1)))
