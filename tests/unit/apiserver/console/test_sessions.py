"""Sessions cannot be forged, end in time, and end when the user wants it."""

import base64
from pathlib import Path

import pytest

from alcove.api.ids import TenantId
from alcove.apiserver.console import sessions
from alcove.apiserver.console.ended import ENDED_SESSIONS_MAX, FILE_BYTES_MAX, EndedSessions
from alcove.apiserver.console.sealing import KEY_BYTES
from alcove.apiserver.console.sessions import SESSION_SECONDS_MAX, ConsoleSessions, Session

ACME, OTHER = TenantId("acme"), TenantId("other")


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def server(directory: Path, clock: Clock, key: bytes = b"k") -> ConsoleSessions:
    """As of one API server of the machine whose files are in the directory."""
    return ConsoleSessions(key * KEY_BYTES, clock, EndedSessions(directory / "ended", clock))


@pytest.fixture
def kept(clock: Clock, tmp_path: Path) -> ConsoleSessions:
    return server(tmp_path, clock)


def found(kept: ConsoleSessions, value: str) -> Session:
    session = kept.find(value)
    assert session is not None
    return session


def test_a_session_holds_the_token_and_shows_it_to_nobody(kept: ConsoleSessions) -> None:
    value = kept.start(ACME, "the-token")
    assert found(kept, value).token == "the-token" and found(kept, value).tenant == ACME
    assert b"the-token" not in base64.urlsafe_b64decode(value)


def test_a_longest_token_fits_in_a_cookie(kept: ConsoleSessions) -> None:
    value = kept.start(TenantId("t" * 63), "x" * sessions.TOKEN_LENGTH_MAX)
    assert len(sessions.set_cookie(value)[1]) <= 4096


def test_forged_and_foreign_sessions_are_none(kept: ConsoleSessions, clock: Clock, tmp_path: Path) -> None:
    value = kept.start(ACME, "token")
    sealed = bytearray(base64.urlsafe_b64decode(value))
    sealed[-1] ^= 1
    foreign = server(tmp_path, clock, b"o").start(ACME, "token")
    changed = base64.urlsafe_b64encode(sealed).decode()
    for each in ("", "a", "!", "ä", "AAAA", value[:-8], value + value, changed, foreign):
        assert kept.find(each) is None, each


def test_a_session_ends_in_time(kept: ConsoleSessions, clock: Clock) -> None:
    value = kept.start(ACME, "token")
    clock.now += SESSION_SECONDS_MAX - 1
    assert kept.find(value) is not None
    clock.now += 1
    assert kept.find(value) is None


def test_a_copied_cookie_ends_with_the_session(kept: ConsoleSessions) -> None:
    value, another = kept.start(ACME, "token"), kept.start(ACME, "token")
    kept.end(found(kept, value))
    assert kept.find(value) is None and kept.find(another) is not None


def test_who_ends_very_many_sessions_ends_only_those_of_the_own_tenant(
    kept: ConsoleSessions, clock: Clock
) -> None:
    mine, others = kept.start(ACME, "token"), kept.start(OTHER, "token")
    first = kept.start(ACME, "token")
    kept.end(found(kept, first))
    for _ in range(ENDED_SESSIONS_MAX):
        kept.end(found(kept, kept.start(ACME, "token")))
    assert kept.find(first) is None and kept.find(mine) is None
    assert kept.find(others) is not None
    clock.now += 1
    assert kept.find(kept.start(ACME, "token")) is not None


def test_ended_sessions_are_forgotten_when_they_have_expired(kept: ConsoleSessions, clock: Clock) -> None:
    for _ in range(ENDED_SESSIONS_MAX):
        kept.end(found(kept, kept.start(ACME, "token")))
    clock.now += SESSION_SECONDS_MAX
    value, another = kept.start(ACME, "token"), kept.start(ACME, "token")
    kept.end(found(kept, value))
    assert kept.find(another) is not None


def test_a_session_ended_at_one_server_has_ended_at_all_of_the_machine_and_after_a_restart(
    kept: ConsoleSessions, clock: Clock, tmp_path: Path
) -> None:
    other = server(tmp_path, clock)
    value, another = kept.start(ACME, "token"), kept.start(ACME, "token")
    assert found(other, value).token == "token"
    kept.end(found(kept, value))
    for each in (kept, other, server(tmp_path, clock)):
        assert each.find(value) is None and each.find(another) is not None
    other.end(found(other, another))
    assert kept.find(another) is None


def test_a_long_file_of_ended_sessions_is_not_written_anew_at_each_end(
    kept: ConsoleSessions, clock: Clock, tmp_path: Path
) -> None:
    """Many tenants together may have ended so many."""
    other = server(tmp_path, clock)
    lines = [f"{number:016} t{number} {clock.now + 100!r}\n" for number in range(40_000)]
    (tmp_path / "ended").write_text("".join(lines))
    inodes = []
    for number in range(6):
        each = (kept, other)[number % 2]
        each.end(found(each, each.start(ACME, "token")))
        inodes.append((tmp_path / "ended").stat().st_ino)
    assert (tmp_path / "ended").stat().st_size > FILE_BYTES_MAX
    assert len(set(inodes[1:])) == 1


def test_the_file_of_ended_sessions_does_not_grow_without_end(
    kept: ConsoleSessions, clock: Clock, tmp_path: Path
) -> None:
    other = server(tmp_path, clock)
    line = f"{'x' * 16} {ACME} {clock.now - 1!r}\n"
    (tmp_path / "ended").write_text(line * (FILE_BYTES_MAX // len(line)))
    value, open_one = kept.start(ACME, "token"), kept.start(ACME, "token")
    for _ in range(3):
        kept.end(found(kept, kept.start(ACME, "token")))
    kept.end(found(kept, value))
    assert (tmp_path / "ended").stat().st_size < 1_000
    for each in (kept, other):
        assert each.find(value) is None and each.find(open_one) is not None
