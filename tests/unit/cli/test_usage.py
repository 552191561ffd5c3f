"""`alcove usage`: the form of its lines."""

import csv
import io

import pytest

from alcove.api.columns.usage import TENANT_USAGE
from alcove.api.objects import Object
from alcove.api.usage import API_NAMES
from alcove.cli.usage import write_csv

USAGE: Object = {
    "metadata": {"name": "red.2026-11-16", "tenant": "red"},
    "start": "2026-11-16T00:00:00Z",
    "end": "2026-11-17T00:00:00Z",
    "amounts": {
        "cpuUsedNanoseconds": 5_400_000_000_000,
        "memoryUsedByteSeconds": 7200 << 30,
        "podSeconds": 1800,
        "networkOutBytes": 3 << 20,
        "networkInBytes": 10,
    },
}


def test_csv_has_base_units_of_everything(capsys: pytest.CaptureFixture[str]) -> None:
    write_csv([USAGE])
    [row] = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(row) == ["tenant", "start", "end", *API_NAMES]
    assert (row["tenant"], row["cpuUsedNanoseconds"], row["worldInBytes"]) == ("red", "5400000000000", "0")


def test_a_table_has_hours_and_sizes() -> None:
    shown = {column.name: column.value(USAGE, 0.0) for column in TENANT_USAGE}
    assert (shown["CPU-h"], shown["Memory-GiB-h"], shown["Pod-h"]) == ("1.500", "2.000", "0.500")
    assert (shown["Network"], shown["World"]) == ("3.0Mi/10", "0/0")
