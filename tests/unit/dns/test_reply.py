"""Replies to queries, truncated to the size that the client accepts."""

from dnslib import EDNS0, QTYPE, RR, A, DNSRecord
from hypothesis import given
from hypothesis import strategies as st
from pytest import raises

from alcove.dns.reply import (
    UDP_BYTES_MAX,
    Reply,
    compose,
    failure,
    is_rotatable,
    read,
    refuse,
    rotated,
    size_max,
)
from alcove.dns.wire import MalformedMessage, Query, Rcode, parse_query


def query(text: str = "web.example.org", payload_bytes: int = 0) -> Query:
    record = DNSRecord.question(text, "A")
    if payload_bytes:
        record.add_ar(EDNS0(udp_len=payload_bytes, flags="do"))
    parsed = parse_query(record.pack())
    assert parsed is not None
    return parsed


def reply(answers: int, extra: int = 0) -> Reply:
    record = DNSRecord.question("web.example.org", "A").reply()
    for number in range(answers):
        record.add_answer(RR("web.example.org", QTYPE.A, ttl=60, rdata=A(f"192.0.2.{number}")))
    for number in range(extra):
        record.add_ar(RR("other.example.org", QTYPE.A, ttl=60, rdata=A(f"192.0.3.{number}")))
    return read(record.pack())[1]


def test_a_reply_comes_back_with_the_askers_id_case_and_options() -> None:
    asked = query("wEb.eXample.org", payload_bytes=1_232)
    parsed = DNSRecord.parse(compose(asked, reply(2), 512))
    assert parsed.header.id == int.from_bytes(asked.id, "big")
    assert [str(rr.rname) for rr in parsed.rr] == ["wEb.eXample.org."] * 2
    assert (parsed.header.qr, parsed.header.rd) == (1, 1)
    [option] = parsed.ar
    assert option.edns_len == UDP_BYTES_MAX
    assert option.edns_do


def test_without_options_none_come_back() -> None:
    assert DNSRecord.parse(compose(query(), reply(1), 512)).ar == []


@given(
    answers=st.integers(0, 60),
    extra=st.integers(0, 60),
    payload_bytes=st.sampled_from([0, 100, 512, 700, 1_232, 4_096]),
)
def test_a_reply_fits_and_is_marked_if_truncated(answers: int, extra: int, payload_bytes: int) -> None:
    asked = query(payload_bytes=payload_bytes)
    whole = reply(answers, extra)
    room = size_max(asked)
    sent = compose(asked, whole, room)
    parsed = DNSRecord.parse(sent)
    options = bool(payload_bytes)
    assert 512 <= room <= max(512, min(payload_bytes, UDP_BYTES_MAX))
    assert len(sent) <= room
    assert parsed.header.tc == (len(parsed.rr) < answers)
    assert len(parsed.ar) - options == extra or len(sent) + 16 + 8 > room or len(parsed.rr) < answers
    assert [str(rr.rdata) for rr in parsed.rr] == [f"192.0.2.{number}" for number in range(len(parsed.rr))]


def test_options_of_the_other_server_are_cut_out() -> None:
    record = DNSRecord.question("web.example.org", "A").reply()
    record.add_answer(RR("web.example.org", QTYPE.A, ttl=60, rdata=A("192.0.2.1")))
    record.add_ar(RR("other.example.org", QTYPE.A, ttl=60, rdata=A("192.0.2.2")))
    record.add_ar(EDNS0(udp_len=4_096))
    record.add_ar(RR("late.example.org", QTYPE.A, ttl=60, rdata=A("192.0.2.3")))
    _, cut = read(record.pack())
    assert cut.counts == (1, 0, 1)
    assert len(cut.ends) == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_malformed(message: bytes) -> None:
    try:
        read(message)
    except MalformedMessage:
        pass


def test_a_question_is_no_reply() -> None:
    with raises(MalformedMessage):
        read(DNSRecord.question("a", "A").pack())


def test_addresses_take_turns_at_being_first() -> None:
    first = reply(3)
    assert is_rotatable(first, QTYPE.A)
    assert not is_rotatable(reply(1), QTYPE.A)
    assert not is_rotatable(first, QTYPE.SRV)
    parsed = DNSRecord.parse(compose(query(), rotated(first), 512))
    assert [str(rr.rdata) for rr in parsed.rr] == ["192.0.2.1", "192.0.2.2", "192.0.2.0"]
    assert rotated(rotated(rotated(first))) == first


def test_what_cannot_be_read_is_refused_with_a_header() -> None:
    parsed = DNSRecord.parse(refuse(query().id + b"\x01\x00" + b"rubbish", Rcode.FORMERR))
    assert (parsed.header.rcode, parsed.header.qr, parsed.header.rd) == (Rcode.FORMERR, 1, 1)
    assert parsed.questions == []


def test_an_extended_code_is_in_the_options() -> None:
    parsed = DNSRecord.parse(compose(query(payload_bytes=512), failure(Rcode.NOERROR), 512, 1))
    assert parsed.ar[0].edns_rcode == 1
