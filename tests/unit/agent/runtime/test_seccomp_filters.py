"""Compiled seccomp profiles: given to containers with the very same profile only, and bounded."""

import base64
from pathlib import Path

import pytest

from alcove.agent.runtime.base import ContainerId, ContainerSpec
from alcove.agent.runtime.seccomp_filters import ANNOTATION, FILE, FILTERS_MAX, SeccompFilters
from alcove.api.objects import Object

FILTER = b"12345678" * 3


def spec(profile: Object | None) -> ContainerSpec:
    config = {"linux": {"seccomp": profile}, "annotations": {"kept": "yes"}}
    return ContainerSpec(ContainerId("a"), ContainerId("a"), config, Path("/log"))


def learned(folder: Path, profile: Object, content: bytes = FILTER) -> SeccompFilters:
    filters = SeccompFilters()
    (folder / FILE).write_bytes(content)
    filters.learn(spec(profile).config, folder)
    return filters


def annotation(filters: SeccompFilters, profile: Object | None) -> str | None:
    annotations = filters.with_filter(spec(profile)).config["annotations"]
    assert annotations["kept"] == "yes"
    found: str | None = annotations.get(ANNOTATION)
    return found


def test_the_same_profile_gets_the_filter(tmp_path: Path) -> None:
    filters = learned(tmp_path, {"defaultAction": "SCMP_ACT_ERRNO"})
    assert annotation(filters, {"defaultAction": "SCMP_ACT_ERRNO"}) == base64.b64encode(FILTER).decode()


def test_another_profile_and_none_get_no_filter(tmp_path: Path) -> None:
    filters = learned(tmp_path, {"defaultAction": "SCMP_ACT_ALLOW"})
    assert annotation(filters, {"defaultAction": "SCMP_ACT_ERRNO"}) is None
    assert annotation(filters, None) is None


def test_the_filter_of_an_unconfined_container_is_none(tmp_path: Path) -> None:
    filters = SeccompFilters()
    (tmp_path / FILE).write_bytes(FILTER)
    filters.learn(spec(None).config, tmp_path)
    assert annotation(filters, None) is None


@pytest.mark.parametrize("content", [b"", b"1234567", b"12345678" * 4_097])
def test_what_is_no_filter_is_not_kept(tmp_path: Path, content: bytes) -> None:
    filters = learned(tmp_path, {"defaultAction": "SCMP_ACT_ERRNO"}, content)
    assert annotation(filters, {"defaultAction": "SCMP_ACT_ERRNO"}) is None


def test_a_missing_filter_is_no_error(tmp_path: Path) -> None:
    SeccompFilters().learn(spec({"defaultAction": "SCMP_ACT_ERRNO"}).config, tmp_path)


def test_profiles_are_bounded(tmp_path: Path) -> None:
    filters = learned(tmp_path, {"number": 0})
    for number in range(1, FILTERS_MAX + 1):
        filters.learn(spec({"number": number}).config, tmp_path)
    assert annotation(filters, {"number": 0}) is None
    assert annotation(filters, {"number": FILTERS_MAX})
