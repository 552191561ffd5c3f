import marshal
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from alcove.apiserver.metrics import ApiServerMetrics, RequestKey
from alcove.apiserver.worker_metrics import merge, pack


class Collected:
    def __init__(self, families: list[object]) -> None:
        self._families = families

    def collect(self) -> list[object]:
        return self._families


def test_each_sample_has_its_worker_and_each_metric_is_described_once() -> None:
    packed = {}
    for worker in (0, 1):
        metrics = ApiServerMetrics()
        series = metrics.requests(RequestKey("get"))
        series.begin()
        series.finish(200 + worker, 0.1)
        # As it is sent from one process to the other.
        packed[str(worker)] = marshal.loads(marshal.dumps(pack(metrics.families())))
    text = generate_latest(cast(CollectorRegistry, Collected(list(merge(packed))))).decode()
    assert text.count("# TYPE apiserver_request_total counter") == 1
    for worker in (0, 1):
        assert (
            f'code="{200 + worker}",group="",resource="",scope="",subresource="",verb="GET",version="",worker="{worker}"'
            in text
        )
        assert f'process_resident_memory_bytes{{worker="{worker}"}}' in text
        assert 'apiserver_request_duration_seconds_bucket{group="",le="+Inf",' in text
