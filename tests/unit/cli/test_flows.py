"""Durations and destinations of flows."""

import pytest

from alcove.cli.errors import CliError
from alcove.cli.flows import FlowQuery, seconds_of


def test_durations_are_as_people_write_them() -> None:
    assert [seconds_of(text) for text in ("", "90", "30s", "5m", "2h", "1d")] == [0, 90, 30, 300, 7200, 86400]
    for bad in ("5 m", "-1s", "m", "1w", "9" * 20):
        with pytest.raises(CliError, match="invalid duration"):
            seconds_of(bad)


@pytest.mark.parametrize(
    ("to", "is_shown"),
    [
        ("", True),
        ("postgres", True),
        ("db/postgres", True),
        ("web/postgres", False),
        ("10.0.0.9", True),
        ("10.0.0.9:5432", True),
        (":5432", True),
        ("postgres:80", False),
        ("sql:80", True),
        ("[fd00::9]:5432", False),
    ],
)
def test_to_names_a_pod_a_service_an_address_or_a_port(to: str, is_shown: bool) -> None:
    target = {"address": "10.0.0.9", "port": 5432, "namespace": "db", "name": "postgres"}
    service = {"address": "172.20.0.1", "port": 80, "namespace": "db", "name": "sql"}
    query = FlowQuery("", "", to, "", 0, 10)
    assert query.is_to({"destination": target, "service": service}) is is_shown
