"""Conflicting files of a volume."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.api.warnings.paths import warnings


def items(*paths: str) -> list[Object]:
    return [{"key": f"k{index}", "path": path} for index, path in enumerate(paths)]


def messages(**volume: Any) -> list[str]:
    return warnings([{"name": "v", **volume}])


@pytest.mark.parametrize(
    ("paths", "overlap"),
    [
        (("a", "b"), ""),
        (("a", "a"), '"a" with "a"'),
        (("a", "a/b"), '"a/b" with "a"'),
        (("a/b", "a/"), '"a" with "a/b"'),
        (("a/b", "a/c"), ""),
        (("ab", "a/c"), ""),
    ],
)
def test_paths_in_one_map(paths: tuple[str, ...], overlap: str) -> None:
    wanted = [f'volume "v" (ConfigMap "m"): overlapping paths: {overlap}'] if overlap else []
    assert messages(configMap={"name": "m", "items": items(*paths)}) == wanted


def test_other_kinds_of_volumes() -> None:
    same = items("a", "a")
    assert messages(secret={"secretName": "s", "items": same}) == [
        'volume "v" (Secret "s"): overlapping paths: "a" with "a"'
    ]
    assert messages(downwardAPI={"items": same}) == [
        'volume "v" (DownwardAPI): overlapping paths: "a" with "a"'
    ]
    assert messages(emptyDir={}) == []


def test_projected_sources_are_one_folder() -> None:
    sources = [
        {"configMap": {"name": "m", "items": items("a")}},
        {"secret": {"name": "s", "items": items("a/b")}},
        {"serviceAccountToken": {"path": "token"}},
        {"clusterTrustBundle": {"signerName": "x/y", "path": "token"}},
        {"podCertificate": {"keyPath": "key", "certificateChainPath": "key"}},
        {},
    ]
    start = 'volume "v" (Projected)'
    assert messages(projected={"sources": sources}) == [
        f"{start} has no sources provided",
        f'{start}: overlapping paths: "a/b" (Secret "s") with "a" (ConfigMap "m")',
        f'{start}: overlapping paths: "token" (ClusterTrustBundle "x/y") with "token" (ServiceAccountToken)',
        f'{start}: overlapping paths: "key" (PodCertificate key) with "key" (PodCertificate chain)',
    ]
