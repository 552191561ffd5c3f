"""Reading a ring that others write: what is new, once, whole, and how much is missing."""

from ipaddress import ip_address

import numpy as np
import pytest

from alcove.dataplane.address import pack
from alcove.dataplane.maps import OPENING, OPENINGS_MAX, TUPLE
from alcove.dataplane.openings import OPENING_FIELDS, OpeningRing, address_word, address_words


class WrittenRing(OpeningRing):
    """A ring in the memory of this process, with a kernel that writes when it is told to."""

    def __init__(self) -> None:
        self._memory = bytearray(OPENING.size * OPENINGS_MAX)
        self._records = np.frombuffer(self._memory, OPENING_FIELDS)
        self._counts = np.zeros(4, "<u8")
        self._slot = 2
        self._waits = False
        self.pin = self.position = self.missed = 0

    def open(self, count: int, is_whole: bool = True) -> None:
        for _ in range(count):
            number = self.count
            self._counts[self._slot] += 1
            source, target = (pack(ip_address(text)) for text in ("10.0.0.1", "10.0.0.2"))
            port = (number % 60_000).to_bytes(2, "big")
            key = TUPLE.pack(source, target, port, port, 6, 0)
            at = number % OPENINGS_MAX * OPENING.size
            raw = OPENING.pack(key, 7, (number + 1) % 2**32 if is_whole else 0)
            self._memory[at : at + OPENING.size] = raw

    def finish(self, number: int) -> None:
        at = number % OPENINGS_MAX * OPENING.size + OPENING.offsets()["number"]
        self._memory[at : at + 4] = (number + 1).to_bytes(4, "little")


def numbers(ring: WrittenRing) -> tuple[list[int], int]:
    found, lost = ring.read()
    return [int(each) - 1 for each in found["number"]], lost


def test_each_connection_is_read_once_and_in_order() -> None:
    ring = WrittenRing()
    assert numbers(ring) == ([], 0)
    ring.open(3)
    assert numbers(ring) == ([0, 1, 2], 0)
    assert numbers(ring) == ([], 0)
    ring.open(OPENINGS_MAX - 1)  # Around the end.
    assert numbers(ring) == (list(range(3, OPENINGS_MAX + 2)), 0)


def test_what_was_overwritten_is_counted() -> None:
    ring = WrittenRing()
    ring.open(OPENINGS_MAX + 10)
    found, lost = numbers(ring)
    assert (found[0], len(found), lost) == (10, OPENINGS_MAX, 10)


def test_a_record_that_is_being_written_is_read_when_it_is_whole() -> None:
    ring = WrittenRing()
    ring.open(1)
    ring.open(1, is_whole=False)
    assert numbers(ring) == ([0], 0)
    ring.finish(1)
    ring.open(1)
    assert numbers(ring) == ([1, 2], 0)


def test_a_record_that_is_never_whole_is_counted_and_not_waited_for() -> None:
    ring = WrittenRing()
    ring.open(1, is_whole=False)
    assert numbers(ring) == ([], 0)
    ring.open(1)
    assert numbers(ring) == ([1], 1)
    ring.open(1, is_whole=False)
    assert numbers(ring) == ([], 0)
    assert numbers(ring) == ([], 1)


def test_numbers_go_on_after_four_billion_connections() -> None:
    ring = WrittenRing()
    ring._counts[ring._slot] = ring.position = 2**32 - 1
    ring.open(2)
    found, lost = ring.read()
    assert (found["number"].tolist(), lost) == ([0, 1], 0)


@pytest.mark.parametrize("text", ["10.0.0.1", "fd00::1"])
def test_an_address_has_the_same_word_alone_and_in_records(text: str) -> None:
    packed = pack(ip_address(text))
    records = np.frombuffer(packed * 3, "<2u8")
    assert set(address_words(records).tolist()) == {address_word(packed)}
