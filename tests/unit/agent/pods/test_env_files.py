"""Files with environment variables, in the form that Kubernetes defines."""

from pathlib import Path

import pytest

from alcove.agent.pods.env_files import FILE_BYTES_MAX, EnvFileError, parse, value

TEXT = """\
# comment='no'

  A='one'
B='two' # said so
C='first
  second = "x" \\n'
D= 'nothing'
A='later'
EMPTY=''"""


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("A", "one"),
        ("B", "two"),
        ("C", 'first\n  second = "x" \\n'),
        ("D", ""),
        ("EMPTY", ""),
        ("comment", None),
        ("nope", None),
    ],
)
def test_values(key: str, expected: str | None) -> None:
    assert parse(TEXT, key) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [("A", 1), ("A = 'x'", 1), ("A='x'\nB=x", 2), ('A="x"', 1), ("A='x' y", 1), ("A='x\n", 1), ("='x'", 1)],
)
def test_other_forms_are_errors(text: str, line: int) -> None:
    with pytest.raises(EnvFileError, match=f"at line {line}"):
        parse(text, "Z")


def test_a_file_outside_the_volume_is_not_read(tmp_path: Path) -> None:
    volume, secret = tmp_path / "volume", tmp_path / "secret"
    volume.mkdir()
    secret.write_text("A='of the node'")
    (volume / "link").symlink_to(secret)
    (volume / "big").write_text("#" * (FILE_BYTES_MAX + 1))
    (volume / "env").write_text("A='own'")
    assert value(volume, "env", "A") == "own"
    for path in ("link", "../secret", "none", "big"):
        with pytest.raises(EnvFileError):
            value(volume, path, "A")


def test_a_hostile_file_takes_no_longer_than_its_length() -> None:
    for text in ("A='x' " + " " * 100_000 + "y", "=" * 100_000, "A=" + "'" * 100_001, " " * 100_000 + "="):
        with pytest.raises(EnvFileError):
            parse(text, "Z")
