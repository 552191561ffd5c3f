"""Questions are those of resolvers, and replies are read as another library writes them."""

import pytest
from dnslib import AAAA, CNAME, QTYPE, RR, A, DNSRecord

from alcove.dns import question
from alcove.dns.names import name_of
from alcove.dns.records import RecordType


@pytest.mark.parametrize("kind", question.ADDRESS_TYPES)
def test_a_question_is_understood(kind: RecordType) -> None:
    asked = DNSRecord.parse(question.encode(name_of("web.default.svc"), kind))
    assert (str(asked.q.qname), QTYPE[asked.q.qtype], asked.header.rd) == ("web.default.svc.", kind.name, 1)


def test_addresses_of_all_families_are_found_behind_aliases() -> None:
    reply = DNSRecord.question("www.example.org").reply()
    reply.add_answer(RR("www.example.org", QTYPE.CNAME, rdata=CNAME("far.example.org")))
    reply.add_answer(RR("far.example.org", QTYPE.A, rdata=A("192.0.2.1")))
    reply.add_answer(RR("far.example.org", QTYPE.AAAA, rdata=AAAA("2001:db8::1")))
    packed = bytes(reply.pack())
    assert [str(each) for each in question.addresses(packed)] == ["192.0.2.1", "2001:db8::1"]
    assert question.rcode_name(packed) == "NOERROR" and not question.is_truncated(packed)
    reply.header.rcode, reply.header.tc = 9, 1
    packed = bytes(reply.pack())
    assert question.rcode_name(packed) == "RCODE9" and question.is_truncated(packed)


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("db", ["db.shop.svc.d.", "db.d.", "db."]),
        ("a.b.c.d.e.f", ["a.b.c.d.e.f.", "a.b.c.d.e.f.shop.svc.d.", "a.b.c.d.e.f.d."]),
        ("db.example.", ["db.example."]),
    ],
)
def test_names_are_searched_as_in_pods(name: str, tried: list[str]) -> None:
    assert question.searched(name, ("shop.svc.d", "d")) == tried
