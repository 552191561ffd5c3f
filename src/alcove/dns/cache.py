"""A cache of upstream replies for their time to live, bounded in entries and bytes. Evicts the least recently
used."""

from collections.abc import Callable
from struct import Struct as Layout

from msgspec import Struct, structs

from alcove.dns.names import Name
from alcove.dns.records import RecordType
from alcove.dns.reply import Reply
from alcove.dns.wire import Rcode

POSITIVE_SECONDS_MAX = 3_600
NEGATIVE_SECONDS_MAX = 300
FAILURE_SECONDS = 2
ENTRY_BYTES_OVERHEAD = 400
"""The approximate memory of an entry besides its bytes."""

_TTL = Layout(">I")


class DnsQuestion(Struct, frozen=True, gc=False):
    name: Name
    type: int
    dnssec_ok: bool = False
    unchecked: bool = False
    """The client validates signatures itself (CD)."""


class _Entry(Struct, frozen=True):
    reply: Reply
    stored: float
    expires: float


class ReplyCache:
    def __init__(
        self, clock: Callable[[], float], entries_max: int = 2_000, bytes_max: int = 1 << 20
    ) -> None:
        self._clock = clock
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: dict[DnsQuestion, _Entry] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, question: DnsQuestion) -> Reply | None:
        """The cached reply with its remaining TTLs; None if there is none."""
        entry = self._entries.pop(question, None)
        if entry is None:
            return None
        now = self._clock()
        if now >= entry.expires:
            self.bytes -= _size(entry)
            return None
        self._entries[question] = entry
        return _aged(entry.reply, int(now - entry.stored))

    def put(self, question: DnsQuestion, reply: Reply) -> None:
        seconds = lifetime_seconds(reply)
        if seconds <= 0:
            return
        self._remove(question)
        now = self._clock()
        entry = _Entry(reply, now, now + seconds)
        self._entries[question] = entry
        self.bytes += _size(entry)
        while len(self._entries) > self._entries_max or self.bytes > self._bytes_max:
            self._remove(next(iter(self._entries)))

    def _remove(self, question: DnsQuestion) -> None:
        entry = self._entries.pop(question, None)
        if entry is not None:
            self.bytes -= _size(entry)


def lifetime_seconds(reply: Reply) -> int:
    """How long a reply may be cached."""
    if reply.rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN):
        return FAILURE_SECONDS
    answers = reply.counts[0]
    if reply.rcode == Rcode.NOERROR and answers:
        return min(POSITIVE_SECONDS_MAX, *(_ttl(reply, position) for position in reply.ttls[:answers]))
    return min(NEGATIVE_SECONDS_MAX, _negative_seconds(reply))


def _negative_seconds(reply: Reply) -> int:
    """The smaller of the SOA's TTL and its MINIMUM field (RFC 2308); 0 without a SOA."""
    answers, authority, _ = reply.counts
    for index in range(answers, answers + authority):
        position, end = reply.ttls[index], reply.ends[index]
        if int.from_bytes(reply.tail[position - 4 : position - 2], "big") == RecordType.SOA:
            return min(_ttl(reply, position), int.from_bytes(reply.tail[end - 4 : end], "big"))
    return 0


def _ttl(reply: Reply, position: int) -> int:
    [seconds] = _TTL.unpack_from(reply.tail, position)
    return 0 if seconds >> 31 else int(seconds)  # The highest bit set means zero (RFC 2181).


def _aged(reply: Reply, seconds: int) -> Reply:
    if not seconds:
        return reply
    tail = bytearray(reply.tail)
    for position in reply.ttls:
        _TTL.pack_into(tail, position, max(0, _ttl(reply, position) - seconds))
    return structs.replace(reply, tail=bytes(tail))


def _size(entry: _Entry) -> int:
    return len(entry.reply.tail) + ENTRY_BYTES_OVERHEAD
