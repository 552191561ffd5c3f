from alcove.api.conversions import events

CORE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod"},
    "message": "m",
    "source": {"component": "c"},
    "firstTimestamp": "2024-05-01T10:00:00Z",
    "lastTimestamp": "2024-05-01T10:00:00Z",
    "count": 2,
    "reportingComponent": "r",
    "reportingInstance": "i",
    "eventTime": "2024-05-01T10:00:00.000000Z",
    "series": {"count": 2},
    "related": {"kind": "Node"},
    "reason": "Why",
    "action": "Did",
    "type": "Normal",
}
SERVED = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "regarding": {"kind": "Pod"},
    "note": "m",
    "deprecatedSource": {"component": "c"},
    "deprecatedFirstTimestamp": "2024-05-01T10:00:00Z",
    "deprecatedLastTimestamp": "2024-05-01T10:00:00Z",
    "deprecatedCount": 2,
    "reportingController": "r",
    "reportingInstance": "i",
    "eventTime": "2024-05-01T10:00:00.000000Z",
    "series": {"count": 2},
    "related": {"kind": "Node"},
    "reason": "Why",
    "action": "Did",
    "type": "Normal",
}


def test_both_forms_have_the_same_errors() -> None:
    assert events.to_storage(SERVED) == CORE
    assert events.from_storage(CORE) == SERVED
