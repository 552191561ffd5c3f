"""Queries are parsed as another library parses them; malformed ones are rejected."""

import pytest
from dnslib import EDNS0, QTYPE, RR, A, DNSHeader, DNSQuestion, DNSRecord
from hypothesis import given
from hypothesis import strategies as st

from alcove.dns.wire import Edns, MalformedMessage, Query, parse_query, question_end, record_offsets

LABELS = st.lists(st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True), min_size=0, max_size=6)


def question(text: str, kind: str = "A", edns: EDNS0 | None = None) -> bytes:
    record = DNSRecord(
        DNSHeader(id=0x1234, bitmap=0x0100), questions=[DNSQuestion(text, getattr(QTYPE, kind))]
    )
    if edns is not None:
        record.add_ar(edns)
    return bytes(record.pack())


@given(LABELS, st.integers(0, 65_535), st.integers(0, 65_535), st.booleans())
def test_a_question_is_read_as_the_library_reads_it(
    parts: list[str], kind: int, qclass: int, edns: bool
) -> None:
    record = DNSRecord(DNSHeader(id=7, bitmap=0x0110), questions=[DNSQuestion(".".join(parts), kind, qclass)])
    if edns:
        record.add_ar(EDNS0(udp_len=4_096, flags="do"))
    query = parse_query(record.pack())
    assert query is not None
    parsed = DNSRecord.parse(record.pack()).q
    assert query.name == b"".join(bytes((len(each),)) + each.lower() for each in parsed.qname.label) + b"\0"
    assert (query.type, query.qclass, query.id, query.flags) == (kind, qclass, b"\0\7", 0x0110)
    assert query.edns == (Edns(4_096, 0, True) if edns else None)


@given(st.binary(max_size=600))
def test_any_bytes_are_a_query_or_refused(packet: bytes) -> None:
    try:
        assert isinstance(parse_query(packet), Query | None)
    except MalformedMessage:
        pass


@given(st.data())
def test_a_damaged_question_is_a_query_or_refused(data: st.DataObject) -> None:
    packet = bytearray(question("web.default.svc.cluster.local", edns=EDNS0(udp_len=1_232)))
    for _ in range(data.draw(st.integers(1, 4))):
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    del packet[data.draw(st.integers(0, len(packet))) :]
    try:
        parse_query(bytes(packet))
    except MalformedMessage:
        pass


def test_upper_and_lower_case_are_kept_beside_the_name() -> None:
    query = parse_query(question("WeB.Default.svc.CLUSTER.local"))
    assert query is not None
    assert query.name == parse_query(question("web.default.svc.cluster.local")).name  # type: ignore[union-attr]
    assert b"\3WeB\7Default" in query.question


def test_a_reply_is_never_replied_to() -> None:
    packet = bytearray(question("a"))
    packet[2] |= 0x80
    assert parse_query(bytes(packet)) is None


@pytest.mark.parametrize("length", range(12))
def test_less_than_a_header_is_never_replied_to(length: int) -> None:
    assert parse_query(b"\0" * length) is None


HEADER = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"
MALFORMED = {
    "no question": b"\x12\x34\x01\x00" + b"\0" * 8,
    "two questions": b"\x12\x34\x01\x00\x00\x02" + b"\0" * 6 + b"\1a\0\0\1\0\1\1b\0\0\1\0\1",
    "name without end": HEADER + b"\0" + b"\3web",
    "name without type": HEADER + b"\0" + b"\3web\0\0",
    "compressed name": HEADER + b"\0" + b"\xc0\x0c\0\1\0\1",
    "reserved label": HEADER + b"\0" + b"\x41a\0\0\1\0\1",
    "name too long": HEADER + b"\0" + (b"\x3f" + b"a" * 63) * 4 + b"\0\0\1\0\1",
    "OPT missing": HEADER + b"\1" + b"\1a\0\0\1\0\1",
    "OPT cut": HEADER + b"\1" + b"\1a\0\0\1\0\1" + b"\0\0\x29\x04\xd0\0\0\0\0\0",
    "OPT with a length beyond the end": HEADER + b"\1" + b"\1a\0\0\1\0\1" + b"\0\0\x29\x04\xd0\0\0\0\0\0\x09",
    "OPT with a name": HEADER + b"\1" + b"\1a\0\0\1\0\1" + b"\1a\0\0\x29\x04\xd0\0\0\0\0\0\0",
    "two OPT": HEADER + b"\2" + b"\1a\0\0\1\0\1" + b"\0\0\x29\x04\xd0\0\0\0\0\0\0" * 2,
    "OPT as answer": b"\x12\x34\x01\x00\x00\x01\x00\x01\0\0\0\0" + b"\1a\0\0\1\0\1" + b"\0\0\x29\x04\xd0\0\0\0\0\0\0",
    "more records than anybody sends": HEADER[:-2] + b"\0\xff\xff" + b"\1a\0\0\1\0\1",
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed(case: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_query(MALFORMED[case])


def test_an_unknown_kind_of_request_is_read_as_far_as_needed() -> None:
    packet = bytearray(question("a"))
    packet[2] = 5 << 3
    query = parse_query(bytes(packet))
    assert query is not None
    assert query.opcode == 5


def test_records_are_where_the_library_put_them() -> None:
    record = DNSRecord.parse(question("web.example.org")).reply()
    for number in range(3):
        record.add_answer(RR("web.example.org", QTYPE.A, ttl=number, rdata=A("192.0.2.1")))
    message = bytes(record.pack())
    found = record_offsets(message, question_end(message), 3)
    assert [int.from_bytes(message[offset.ttl : offset.ttl + 4], "big") for offset in found] == [0, 1, 2]
    assert [offset.type for offset in found] == [1, 1, 1]
    assert found[-1].end == len(message)
