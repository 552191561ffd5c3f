import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.logs import files
from alcove.agent.logs.entries import parse, seconds_of

START = 1_767_323_045


def stamp(second: float) -> str:
    return datetime.fromtimestamp(START + second, UTC).isoformat(timespec="microseconds")


@contextmanager
def opened(data: bytes) -> Iterator[int]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "0.log"
        path.write_bytes(data)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


ENTRIES = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.sampled_from("FFFP"), st.text("abc ", max_size=30)),
    max_size=60,
)


@given(ENTRIES, st.integers(0, 70), st.sampled_from([16, 64, 64 << 10]))
def test_a_tail_begins_where_the_last_lines_do(
    entries: list[tuple[str, str, str]], lines: int, block: int
) -> None:
    texts = [f"{stamp(n)} {stream} {tag} {text}\n" for n, (stream, tag, text) in enumerate(entries)]
    data = "".join(texts).encode()
    was, files.BLOCK_BYTES = files.BLOCK_BYTES, block
    try:
        with opened(data) as descriptor:
            offset, found = files.tail_offset(descriptor, lines)
    finally:
        files.BLOCK_BYTES = was
    wholes = [n for n, (_, tag, _) in enumerate(entries) if tag == "F"]
    assert found == min(lines, len(wholes))
    if lines == 0:
        assert offset == len(data)
        return
    # After the last line that is not wanted any more, if there is one.
    first = wholes[-lines - 1] + 1 if len(wholes) > lines else 0
    assert offset == len("".join(texts[:first]))


@given(st.integers(1, 4_000), st.integers(-10, 4_010))
def test_since_begins_before_the_first_wanted_line_and_not_far_before(count: int, second: int) -> None:
    texts = [f"{stamp(n)} stdout F {'x' * (n % 90)}\n".encode() for n in range(count)]
    data = b"".join(texts)
    with opened(data) as descriptor:
        offset = files.since_offset(descriptor, START + second)
    wanted = sum(map(len, texts[: max(0, min(second, count))]))
    assert offset <= wanted
    assert wanted - offset <= 2 * files.BLOCK_BYTES
    if offset < len(data):
        line = data[offset:].partition(b"\n")[0]
        entry = parse(line)
        assert entry is not None and seconds_of(entry.time) >= START


def test_the_files_of_a_log_come_oldest_first(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    assert files.all_of(path) == []
    names = ["1.log.20260102-030405.000002", "1.log.20260102-030405.000001", "1.log", "10.log", "other"]
    for name in names:
        (tmp_path / name).touch()
    assert [each.name for each in files.all_of(path)] == [names[1], names[0], "1.log"]
    assert files.all_of(tmp_path / "nowhere" / "0.log") == []
