"""Image names, by tables."""

import pytest

from alcove.agent.images.references import InvalidImageName, full, is_latest, path_of, same

DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1.35", "busybox:1.35"),
        ("registry.example:5000/a/b", "registry.example:5000/a/b:latest"),
        ("registry.example:5000/a/b:x", "registry.example:5000/a/b:x"),
        (f"a/b{DIGEST}", f"a/b{DIGEST}"),
        (f"a/b:t{DIGEST}", f"a/b:t{DIGEST}"),
        ("[fd00::1]:5000/a", "[fd00::1]:5000/a:latest"),
        ("localhost/a", "localhost/a:latest"),
        ("Host:5000/a", "Host:5000/a:latest"),
        ("H.example/a", "H.example/a:latest"),
    ],
)
def test_full_names(name: str, expected: str) -> None:
    assert full(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "UPPER",
        "UPPER/a",
        "a/UPPER",
        "h.example/UPPER",
        "h..example/a",
        "h.example:x/a",
        "a//b",
        "a:",
        "a:b:c",
        "-a",
        "a b",
        "a@sha256:0",
        "../a",
        "a\n",
        "x" * 600,
    ],
)
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidImageName):
        full(name)


@pytest.mark.parametrize(
    ("name", "latest"), [("a", True), ("a:latest", True), ("a:1", False), (f"a{DIGEST}", False)]
)
def test_latest(name: str, latest: bool) -> None:
    assert is_latest(name) == latest


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a:1", "a:1"),
        ("a/b:1", "a/b:1"),
        ("h.example/a:1", "a:1"),
        ("localhost/a:1", "a:1"),
        ("h:5000/a/b:1", "a/b:1"),
    ],
)
def test_paths(name: str, path: str) -> None:
    assert path_of(name) == path


@pytest.mark.parametrize(
    ("asked", "known", "expected"),
    [
        ("a:1", "a:1", True),
        ("a:1", "h.example/library/a:1", True),
        ("a:1", "h.example/a:1", True),
        ("a/b:1", "h.example/a/b:1", True),
        ("b:1", "h.example/a/b:1", False),
        ("a:1", "h.example/a:2", False),
        ("h.example/a:1", "a:1", False),
        ("h.example/a:1", "other.example/a:1", False),
    ],
)
def test_when_two_names_mean_the_same(asked: str, known: str, expected: bool) -> None:
    assert same(asked, known) == expected
