"""What a trace says of a name, from the objects and from the DNS server."""

import pytest

from alcove.api.objects import Object
from alcove.cli.trace_names import compare_names, name_rows, other_servers
from alcove.network.trace import NameLookup

LOOKUP = NameLookup("db.shop.svc", ("10.96.0.7", "10.96.0.6"))


def test_the_server_is_compared_with_the_objects_whatever_the_order() -> None:
    same: Object = {"name": "db.shop.svc.cluster.local.", "addresses": ["10.96.0.6", "10.96.0.7"]}
    assert compare_names(LOOKUP, same, "n1") == ""
    told = "the objects say that db.shop.svc is 10.96.0.6, 10.96.0.7, but the DNS server of n1 says {}"
    assert compare_names(LOOKUP, {**same, "addresses": ["10.96.0.7"]}, "n1") == told.format("10.96.0.7")
    assert compare_names(LOOKUP, {"name": "x", "message": "NXDOMAIN"}, "n1") == told.format("nothing")


@pytest.mark.parametrize("answer", [{}, {"name": "db", "failure": "not asked: no response"}])
def test_a_server_that_was_not_asked_does_not_differ(answer: Object) -> None:
    assert compare_names(LOOKUP, answer, "n1") == ""
    assert compare_names(NameLookup("db", None), {"name": "db", "addresses": ["10.0.0.1"]}, "n1") == ""


@pytest.mark.parametrize(
    ("answer", "row"),
    [
        ({"name": "db.d.", "addresses": ["10.0.0.1"]}, ("dns server", "ok", "on n1: db.d is 10.0.0.1")),
        (
            {"name": "db.d.", "addresses": [f"10.0.0.{number}" for number in range(1, 11)]},
            (
                "dns server",
                "ok",
                f"on n1: db.d is {', '.join(f'10.0.0.{number}' for number in range(1, 9))} and 2 more",
            ),
        ),
        ({"name": "db.d", "message": "gone"}, ("dns server", "no", "on n1: db.d: gone")),
        ({"name": "db", "failure": "not asked: x"}, ("dns server", "", "on n1: not asked: x")),
        (
            {"name": "db.d.", "addresses": ["10.0.0.1"], "denied": "egress denied by NetworkPolicy a/b"},
            ("dns server", "DROP", "on n1: the pod does not reach it: egress denied by NetworkPolicy a/b"),
        ),
    ],
)
def test_a_row_says_what_the_server_says(answer: Object, row: tuple[str, str, str]) -> None:
    assert name_rows(answer, "n1") == [row]


def test_a_pod_with_other_servers_does_not_ask_the_networks() -> None:
    assert other_servers({"spec": {}}) == other_servers({"spec": {"dnsPolicy": "ClusterFirst"}}) == ""
    assert "dnsPolicy None" in other_servers({"spec": {"dnsPolicy": "None"}})
