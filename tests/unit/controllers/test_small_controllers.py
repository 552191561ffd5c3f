"""The pure parts of the small controllers: times, selections, whose token it is."""

from typing import Any

import pytest

from alcove.controllers.certificates import PENDING_SECONDS_MAX, SETTLED_SECONDS_MAX, removal_time
from alcove.controllers.clusterroles import aggregate_rules
from alcove.controllers.tokensecrets import ACCOUNT_UID, is_for, without_data
from alcove.controllers.ttl import expiry_time

MADE = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T01:00:00Z"
EPOCH = 1_767_225_600.0


@pytest.mark.parametrize(
    ("conditions", "seconds"),
    [
        ([], PENDING_SECONDS_MAX),
        ([{"type": "Approved", "lastUpdateTime": LATER}], 3_600 + SETTLED_SECONDS_MAX),
        ([{"type": "Denied"}], SETTLED_SECONDS_MAX),
        ([{"type": "Approved"}, {"type": "Failed", "lastUpdateTime": LATER}], 3_600 + SETTLED_SECONDS_MAX),
    ],
)
def test_when_a_certificate_request_may_go(conditions: list[Any], seconds: float) -> None:
    request = {"metadata": {"creationTimestamp": MADE}, "status": {"conditions": conditions}}
    assert removal_time(request) == EPOCH + seconds


@pytest.mark.parametrize(
    ("ttl", "conditions", "expected"),
    [
        (None, [{"type": "Complete", "status": "True", "lastTransitionTime": MADE}], None),
        (60, [], None),
        (60, [{"type": "Complete", "status": "False", "lastTransitionTime": MADE}], None),
        (60, [{"type": "Complete", "status": "True", "lastTransitionTime": MADE}], EPOCH + 60),
        (0, [{"type": "Failed", "status": "True", "lastTransitionTime": MADE}], EPOCH),
        (60, [{"type": "Suspended", "status": "True", "lastTransitionTime": MADE}], None),
    ],
)
def test_when_a_finished_job_goes(ttl: int | None, conditions: list[Any], expected: float | None) -> None:
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    assert expiry_time({"spec": spec, "status": {"conditions": conditions}}) == expected


def role(name: str, *verbs: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "rules": [{"verbs": [verb]} for verb in verbs]}


def test_roles_are_gathered_once_in_order_and_never_from_themselves() -> None:
    selector = {"matchLabels": {"part": "yes"}}
    whole = role("whole", "old", part="yes")
    whole["aggregationRule"] = {
        "clusterRoleSelectors": [selector, {"matchLabels": {"bad key!": ""}}, selector]
    }
    every = [role("b", "get", "list", part="yes"), role("c", "no"), whole, role("a", "list", part="yes")]
    assert aggregate_rules(whole, every) == [{"verbs": ["list"]}, {"verbs": ["get"]}]


@pytest.mark.parametrize(
    ("uid", "account", "expected"),
    [
        ("1", {"metadata": {"uid": "1"}}, True),
        ("1", {"metadata": {"uid": "2"}}, False),
        (None, {"metadata": {"uid": "2"}}, True),
        ("1", None, False),
    ],
)
def test_a_token_is_for_one_account_not_for_a_name(uid: str | None, account: Any, expected: bool) -> None:
    annotations = {ACCOUNT_UID: uid} if uid else {}
    assert is_for({"metadata": {"annotations": annotations}}, account) is expected


def test_secrets_are_kept_without_what_is_secret() -> None:
    kept = without_data({"metadata": {"name": "x", "labels": {}}, "data": {"token": "t"}, "type": "y"})
    assert kept == {"metadata": {"name": "x"}}
