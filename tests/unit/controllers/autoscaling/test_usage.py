"""Sizes by use: the cases that Kubernetes' replica calculator is known by."""

import pytest

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.autoscaling import usage
from alcove.controllers.autoscaling.samples import MetricSample, MetricsUnavailable, Samples
from alcove.controllers.autoscaling.usage import MetricTarget, Tolerance

NOW = 1_700_000_000.0
LONG_AGO = NOW - 3_600


def pod(
    name: str,
    phase: str = "Running",
    ready: bool = True,
    started: float = LONG_AGO,
    changed: float | None = None,
) -> Object:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": meta.format_time(started if changed is None else changed),
    }
    status = {"phase": phase, "startTime": meta.format_time(started), "conditions": [condition]}
    return {"metadata": {"name": name}, "status": status}


def pods(count: int) -> list[Object]:
    return [pod(f"p{number}") for number in range(count)]


def measured(*milli: int) -> Samples:
    return {f"p{number}": MetricSample(each, NOW, 60.0) for number, each in enumerate(milli)}


def by_share(percent: int, asked: int = 1000, count: int = 10) -> MetricTarget:
    return MetricTarget(percent=percent, requests={f"p{number}": asked for number in range(count)})


def size(
    current: int,
    found: list[Object],
    known: Samples,
    target: MetricTarget,
    resource: str = "cpu",
    up: float = 0.1,
) -> int:
    return usage.replicas(current, found, known, resource, target, Tolerance(up=up), NOW).replicas


@pytest.mark.parametrize(
    ("current", "milli", "percent", "expected"),
    [
        (3, (300, 500, 700), 30, 5),
        (3, (300, 500, 700), 100, 2),
        (5, (100, 300, 500, 250, 250), 50, 3),
        (3, (400, 500, 600), 50, 3),
        (3, (540, 540, 540), 50, 3),  # Within a tenth.
        (3, (560, 560, 560), 50, 4),
        (3, (459, 459, 459), 50, 3),
        (3, (440, 440, 440), 50, 3),  # 2.64, rounded up.
        (1, (5000,), 10, 50),
        (4, (0, 0, 0, 0), 50, 0),
    ],
)
def test_by_share_of_requests(current: int, milli: tuple[int, ...], percent: int, expected: int) -> None:
    assert size(current, pods(current), measured(*milli), by_share(percent)) == expected


@pytest.mark.parametrize(
    ("current", "milli", "aimed", "expected"),
    [(3, (20_000, 10_000, 30_000), 15_000, 4), (5, (10_000,) * 5, 20_000, 3), (2, (105, 105), 100, 2)],
)
def test_by_amount(current: int, milli: tuple[int, ...], aimed: int, expected: int) -> None:
    assert size(current, pods(current), measured(*milli), MetricTarget(milli=aimed), "memory") == expected


def test_going_up_unknown_pods_use_nothing() -> None:
    assert size(4, pods(4), measured(1000, 1000, 1000), by_share(50)) == 6
    # Two of four unknown: 2.2 times as much becomes 1.1, which is no reason to go.
    assert size(4, pods(4), measured(1100, 1100), by_share(50)) == 4


def test_going_down_unknown_pods_use_all_that_they_should() -> None:
    assert size(4, pods(4), measured(100, 100), by_share(50)) == 4
    assert size(5, pods(5), measured(0, 0, 0, 0), by_share(100)) == 1
    assert size(4, pods(4), measured(10, 10), MetricTarget(milli=100), "memory") == 3


def test_going_up_starting_pods_use_nothing() -> None:
    fresh = [pod("p0"), pod("p1"), pod("p2", ready=False, started=NOW - 10), pod("p3", "Pending")]
    assert size(4, fresh, measured(1000, 1000, 9000), by_share(25)) == 8
    assert size(2, fresh, measured(1000, 1000, 9000), by_share(50)) == 2


def test_going_down_starting_pods_do_not_count() -> None:
    found = [pod("p0"), pod("p1", "Pending")]
    assert size(2, found, measured(100), by_share(50)) == 1


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (pod("p0"), True),
        (pod("p0", started=NOW - 200, changed=NOW - 100), True),
        (pod("p0", started=NOW - 200, changed=NOW - 30), False),  # Measured while it was starting.
        (pod("p0", started=NOW - 200, ready=False), False),
        (pod("p0", started=NOW - 900, ready=False, changed=NOW - 890), False),  # Never was ready.
        (pod("p0", started=NOW - 900, ready=False, changed=NOW - 5), True),  # Was, for a long time.
        ({"metadata": {"name": "p0"}, "status": {"phase": "Running"}}, False),
    ],
)
def test_which_pods_are_starting(given: Object, counts: bool) -> None:
    known = measured(1000)
    if counts:
        assert size(1, [given], known, by_share(50)) == 2
    else:
        with pytest.raises(MetricsUnavailable, match="pods might be unready"):
            size(1, [given], known, by_share(50))
    # Memory is what it is from the first moment.
    assert size(1, [given], known, by_share(50), "memory") == 2


def test_pods_that_are_over_do_not_count() -> None:
    ending = pod("p1")
    ending["metadata"]["deletionTimestamp"] = meta.format_time(NOW)
    found = [pod("p0"), ending, pod("p2", "Failed")]
    assert size(3, found, measured(1000, 9000, 9000), by_share(50)) == 2


def test_what_cannot_be_known() -> None:
    with pytest.raises(MetricsUnavailable, match="no pods returned by selector"):
        size(1, [], measured(1), by_share(50))
    with pytest.raises(MetricsUnavailable, match="no metrics returned matched known pods"):
        size(1, pods(1), measured(1), by_share(50, count=0))


def test_a_tolerance_of_ones_own() -> None:
    assert size(10, pods(10), measured(*(540,) * 10), by_share(50), up=0.05) == 11


@pytest.mark.parametrize(
    ("current", "ready", "milli", "target", "expected"),
    [
        (3, 3, 20_000, 15_000, 4),
        (3, 3, 16_000, 15_000, 3),
        (3, 3, 1_000, 15_000, 1),
        (3, 2, 30_000, 15_000, 4),
        (0, 1, 30_000, 15_000, 2),
        (3, 3, 0, 15_000, 0),
    ],
)
def test_a_value_is_shared_by_the_ready_pods(
    current: int, ready: int, milli: int, target: int, expected: int
) -> None:
    found = [*pods(ready), pod("waiting", "Pending", ready=False), pod("unready", ready=False)]
    recommended = usage.replicas_for_value(current, found, milli, target, Tolerance())
    assert (recommended.replicas, recommended.average_milli) == (expected, milli)


def test_a_value_for_no_pods_is_not_known() -> None:
    with pytest.raises(MetricsUnavailable):
        usage.replicas_for_value(1, [], 1_000, 1_000, Tolerance())


@pytest.mark.parametrize(
    ("current", "counted", "milli", "target", "expected", "average"),
    [
        (3, 3, 30_000, 5_000, 6, 10_000),
        (3, 3, 15_500, 5_000, 3, 5_167),
        (3, 3, 4_000, 5_000, 1, 1_334),
        (1, 0, 12_000, 5_000, 3, 12_000),
        (5, 5, 0, 5_000, 0, 0),
    ],
)
def test_an_average_counts_all_replicas(
    current: int, counted: int, milli: int, target: int, expected: int, average: int
) -> None:
    recommended = usage.replicas_for_average(current, counted, milli, target, Tolerance())
    assert (recommended.replicas, recommended.average_milli) == (expected, average)
