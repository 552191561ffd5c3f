import os
import sqlite3
from pathlib import Path

import pytest

from alcove.store.sqlite_file import CompactedError, SqliteFile, UnusableFile, history, newest
from alcove.store.sqlite_rows import DELETED, first_id


def opened(path: Path) -> SqliteFile:
    return SqliteFile(str(path), None, 0.0)


def row(revision: int, name: str, *, position: int = 0, change: int = 1, replaces: int = 0) -> list[object]:
    return [first_id(revision) + position, change, replaces, "pods", "a", "n", name, name.encode()]


def rows_left(path: Path) -> list[int]:
    with sqlite3.connect(path) as connection:
        return [revision >> 8 for (revision,) in connection.execute("SELECT id FROM log ORDER BY id")]


def test_garbage_is_not_taken_for_a_store(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(UnusableFile, match=r"x\.db: file is not a database"):
        opened(path)
    assert path.read_bytes().startswith(b"this is no")


def test_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(UnusableFile, match="is not an Alcove database"):
        opened(path)


def test_newer_format_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    opened(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UnusableFile, match="has format 99, but this version reads up to 1"):
        opened(path)


def test_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    file = opened(path)
    for revision in range(1, 100):
        file.append(row(revision, f"p{revision}" * 50), {})
    file.close()
    content = bytearray(path.read_bytes())
    content[2 * 4_096 : 4 * 4_096] = os.urandom(2 * 4_096)
    path.write_bytes(content)
    with pytest.raises(UnusableFile, match=r"x\.db( is damaged|: database disk image is malformed)"):
        opened(path)


@pytest.mark.parametrize("where", ["missing/x.db", "folder"])
def test_an_unusable_path_is_named(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnusableFile, match=where):
        opened(tmp_path / where)


def test_failed_opening_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"x" * 5_000)
    for _ in range(2):
        with pytest.raises(UnusableFile, match="not a database"):
            opened(path)


def test_append_of_many_rows_is_one_transaction(tmp_path: Path) -> None:
    file = opened(tmp_path / "x.db")
    many = [value for n in range(1, 201) for value in row(n, f"p{n}")]
    with pytest.raises(sqlite3.IntegrityError):
        file.append([*many, *row(200, "same id")], {})
    assert file.revision() == 0
    file.append(many, {})
    assert file.revision() == 200
    file.close()


def test_append_fills_in_wanted_bodies(tmp_path: Path) -> None:
    file = opened(tmp_path / "x.db")
    file.append(row(1, "a"), {})
    delete = row(2, "a", change=DELETED, replaces=first_id(1))
    delete[-1] = b""
    assert file.append(delete, {0: first_id(1)}) == {0: b"a"}
    assert history(file.connect(), 1, 2, True)[0][-1] == b"a"
    file.close()


def test_sweep_removes_what_was_replaced_or_deleted_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    file = opened(path)
    file.append(row(1, "kept"), {})
    file.append(row(2, "changed"), {})
    file.append(row(3, "changed", replaces=first_id(2)), {})
    file.append(row(4, "gone"), {})
    file.append(row(5, "gone", change=DELETED, replaces=first_id(4)), {})
    file.append(row(6, "changed", replaces=first_id(3)), {})
    file.compact_to(5)
    while file.sweep():
        pass
    assert rows_left(path) == [1, 3, 6]
    file.compact_to(6)
    assert not file.sweep()
    assert rows_left(path) == [1, 6]
    file.close()


def test_sweep_goes_on_where_a_crash_left_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    file = opened(path)
    for revision in range(1, 1_001):
        replaces = first_id(revision - 1) if revision > 1 else 0
        file.append(row(revision, "same", replaces=replaces), {})
    file.compact_to(1_000)
    assert file.sweep()
    file.close()
    assert len(rows_left(path)) > 800
    file = opened(path)
    while file.sweep():
        pass
    assert rows_left(path) == [1_000]
    file.close()


def test_history_that_is_gone_is_refused(tmp_path: Path) -> None:
    file = opened(tmp_path / "x.db")
    for revision in range(1, 6):
        file.append(row(revision, f"p{revision}"), {})
    file.compact_to(3)
    reader = file.connect()
    with pytest.raises(CompactedError, match="after 3"):
        history(reader, 2, 5, True)
    with pytest.raises(CompactedError, match="after 3"):
        newest(reader, 2, {}, None, True)
    assert [found[0] >> 8 for found in history(reader, 3, 5, True)] == [4, 5]
    file.close()


def test_narrowed_pages_start_where_the_index_leads(tmp_path: Path) -> None:
    file = opened(tmp_path / "x.db")
    reader = file.connect()
    queries: list[str] = []
    reader.set_trace_callback(queries.append)
    newest(reader, 9, {"resource": "pods", "tenant": "a"}, ("pods", "a", "n", "x"), True)
    (query,) = (query for query in queries if "GROUP BY" in query)
    plan = " ".join(step[3] for step in reader.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "log_by_key (resource=? AND tenant=? AND (namespace,name)>(?,?))" in plan
    file.close()


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    file = opened(tmp_path / "x.db")
    settings = {
        name: file._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2}
    file.close()
