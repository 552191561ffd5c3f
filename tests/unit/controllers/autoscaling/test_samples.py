"""Reading the metrics API and pods' requests."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.autoscaling import samples
from alcove.controllers.autoscaling.samples import MetricSample, MetricsUnavailable


def item(name: str, **containers: Object) -> Object:
    used = [{"name": each, "usage": usage} for each, usage in containers.items()]
    stamp = {"timestamp": "1970-01-01T00:01:40Z", "window": "30s"}
    return {"metadata": {"name": name}, "containers": used, **stamp}


def test_the_sum_of_all_containers_or_one() -> None:
    items = [item("a", web={"cpu": "250m"}, side={"cpu": "1500u"}), item("b", web={"cpu": "1"})]
    assert samples.read(items, "cpu") == {
        "a": MetricSample(252, 100.0, 30.0),
        "b": MetricSample(1000, 100.0, 30.0),
    }
    assert samples.read(items, "cpu", "side") == {"a": MetricSample(2, 100.0, 30.0)}


def test_a_pod_that_lacks_a_figure_is_left_out() -> None:
    items = [item("a", web={"cpu": "1"}, side={"memory": "1Mi"}), item("b")]
    assert samples.read(items, "cpu") == {}
    assert list(samples.read(items, "cpu", "web")) == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30.0),
        ("1m30s", 90.0),
        ("1m0.5s", 60.5),
        ("250ms", 0.25),
        ("", 60.0),
        ("soon", 60.0),
        ("5", 60.0),
    ],
)
def test_windows(text: str, expected: float) -> None:
    assert samples.seconds(text) == expected


def test_requests() -> None:
    def container(name: str, **requests: str) -> Object:
        return {"name": name, "resources": {"requests": requests}}

    sidecar = {**container("proxy", cpu="50m"), "restartPolicy": "Always"}
    spec = {"containers": [container("web", cpu="100m")], "initContainers": [sidecar, container("init")]}
    pod = {"metadata": {"name": "p"}, "spec": spec}
    assert samples.requests([pod], "cpu") == {"p": 150}
    assert samples.requests([pod], "cpu", "web") == {"p": 100}
    with pytest.raises(MetricsUnavailable, match="missing request for memory in container web of Pod p"):
        samples.requests([pod], "memory")
