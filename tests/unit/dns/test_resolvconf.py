"""resolv.conf of pods, by a table."""

import pytest

from alcove.api.objects import Object
from alcove.dns.resolvconf import SEARCHES_MAX, ResolvConf, for_pod, parse

NODE = ResolvConf(("192.0.2.53",), ("corp.example.org",), ("edns0",))
OWN = ("shop.svc.cluster.local", "svc.cluster.local", "cluster.local")

CASES: list[tuple[Object, ResolvConf]] = [
    ({}, ResolvConf(("10.96.0.10",), (*OWN, "corp.example.org"), ("ndots:5",))),
    ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, NODE),
    (
        {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True},
        ResolvConf(("10.96.0.10",), (*OWN, "corp.example.org"), ("ndots:5",)),
    ),
    ({"dnsPolicy": "Default"}, NODE),
    (
        {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["a.b"], "options": [{"name": "rotate"}]}},
        ResolvConf(("9.9.9.9",), ("a.b",), ("rotate",)),
    ),
    (
        {"dnsConfig": {"options": [{"name": "ndots", "value": "2"}], "searches": ["svc.cluster.local", "x"]}},
        ResolvConf(("10.96.0.10",), (*OWN, "corp.example.org", "x"), ("ndots:2",)),
    ),
    (
        {"dnsConfig": {"nameservers": ["1.1.1.1", "10.96.0.10", "2.2.2.2", "3.3.3.3"]}},
        ResolvConf(("10.96.0.10", "1.1.1.1", "2.2.2.2"), (*OWN, "corp.example.org"), ("ndots:5",)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_policies(spec: Object, expected: ResolvConf) -> None:
    assert for_pod("shop", spec, ["10.96.0.10"], "cluster.local", NODE) == expected


def test_the_text_is_read_back() -> None:
    conf = for_pod("shop", {}, ["10.96.0.10"], "cluster.local", NODE)
    assert conf.text() == (
        "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example.org\n"
        "nameserver 10.96.0.10\n"
        "options ndots:5\n"
    )
    assert parse(conf.text()) == conf


def test_a_nodes_file_with_comments_and_repeats() -> None:
    text = "# by hand\ndomain old.example\nsearch a b # c\nnameserver 192.0.2.1\nnameserver\n;x\noptions ndots:1 rotate\n"
    assert parse(text) == ResolvConf(("192.0.2.1",), ("a", "b"), ("ndots:1", "rotate"))


def test_searches_are_limited() -> None:
    many = {"dnsConfig": {"searches": [f"s{number}.example" for number in range(60)]}}
    assert len(for_pod("shop", many, [], "cluster.local", NODE).searches) == SEARCHES_MAX
    long = {"dnsConfig": {"searches": [f"{'x' * 60}.{number:060}.example" for number in range(30)]}}
    assert len(" ".join(for_pod("shop", long, [], "cluster.local", NODE).searches)) <= 2_048
