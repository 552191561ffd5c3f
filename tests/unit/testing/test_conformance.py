"""Reports of ginkgo are read, and compared with the list of tests that pass."""

import json

import pytest

from alcove.testing.conformance import (
    ListError,
    Place,
    SpecOutcome,
    compare,
    groups,
    outcomes,
    read_list,
    slowest,
    table,
    updated,
    write_list,
)

APPS = "[sig-apps] Job should adopt pods [Conformance]"
NODE = "[sig-node] Pods should be updated [Conformance]"
STORAGE = "[sig-storage] Volumes should be mounted [Conformance]"


def spec(name: str, state: str, kind: str = "It", message: str = "") -> dict[str, object]:
    *containers, text = name.split(" ", 2)
    report: dict[str, object] = {"ContainerHierarchyTexts": containers, "LeafNodeText": text, "State": state}
    return report | {"LeafNodeType": kind, "RunTime": 2_000_000_000, "Failure": {"Message": message}}


def test_skipped_tests_and_set_up_are_no_outcomes() -> None:
    specs = [spec(APPS, "passed"), spec(NODE, "failed", message="timed out"), spec(STORAGE, "skipped")]
    specs.append(spec("", "passed", kind="SynchronizedBeforeSuite"))
    report = json.dumps([{"SuitePath": "e2e", "SpecReports": specs}, {"SpecReports": None}]).encode()
    assert outcomes(report) == [SpecOutcome(APPS, True, 2.0), SpecOutcome(NODE, False, 2.0, "timed out")]


@pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted", "aborted"])
def test_a_test_that_did_not_end_well_has_failed(state: str) -> None:
    report = json.dumps([{"SpecReports": [spec(APPS, state)]}]).encode()
    assert [each.passed for each in outcomes(report)] == [False]


def test_a_list_that_is_written_reads_the_same() -> None:
    listed = {APPS: frozenset({Place.RING0, Place.TENANT}), NODE: frozenset[Place]()}
    text = write_list(listed, "two\nlines")
    assert text.splitlines()[:2] == ["# two", "# lines"]
    assert text.splitlines()[2].split() == ["tenant,ring0", *APPS.split()]
    assert read_list(text) == listed


@pytest.mark.parametrize(
    "line", [APPS, f"moon {APPS}", f"none,tenant {APPS}", "tenant", f"tenant {APPS}\nring0 {APPS}"]
)
def test_a_line_that_means_nothing_is_refused(line: str) -> None:
    with pytest.raises(ListError):
        read_list(line)


def test_what_passed_before_and_does_not_now_is_named() -> None:
    listed = read_list(f"tenant {APPS}\nring0 {NODE}\ntenant,ring0 {STORAGE}\n")
    ran = [SpecOutcome(APPS, False, 1.0), SpecOutcome(NODE, True, 1.0)]
    difference = compare(listed, ran, Place.TENANT, [APPS, NODE, STORAGE])
    assert difference.regressed == [APPS]
    assert difference.missing == [STORAGE]
    assert difference.gained == [NODE]
    assert compare(listed, ran, Place.TENANT, [APPS]).missing == []
    assert compare(listed, ran, Place.RING0, [NODE]).regressed == []


def test_an_updated_list_keeps_other_places_and_what_did_not_run() -> None:
    listed = read_list(f"tenant,ring0 {APPS}\ntenant {STORAGE}\n")
    now = updated(listed, [SpecOutcome(APPS, False, 1.0), SpecOutcome(NODE, True, 1.0)], Place.TENANT)
    assert now == read_list(f"ring0 {APPS}\ntenant {NODE}\ntenant {STORAGE}")


def test_the_table_counts_by_group_and_in_all() -> None:
    ran = [SpecOutcome(STORAGE, True, 3.0), SpecOutcome(APPS, False, 1.0), SpecOutcome(APPS, True, 2.0)]
    rows = [line.split() for line in table(ran)]
    assert rows[1:] == [["apps", "1", "1", "3"], ["storage", "1", "0", "3"], ["all", "2", "1", "6"]]


def test_groups_come_with_their_tests_the_largest_first() -> None:
    other = APPS.replace("adopt", "create")
    listed = read_list(f"none {STORAGE}\ntenant {APPS}\ntenant,ring0 {other}\n")
    assert list(groups(listed)) == [
        ("apps", {name: listed[name] for name in (APPS, other)}),
        ("storage", {STORAGE: frozenset()}),
    ]


def test_the_tests_that_took_longest_come_first() -> None:
    ran = [SpecOutcome(STORAGE, True, 3.0), SpecOutcome(APPS, False, 61.0), SpecOutcome(NODE, True, 2.0)]
    assert [line.split(maxsplit=2) for line in slowest(ran, 2)] == [["61", "s", APPS], ["3", "s", STORAGE]]
