"""Responses of admission webhooks: valid ones and rejected ones."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.schema.body import VALUES_MAX
from alcove.apiserver.admission.webhooks import review
from alcove.apiserver.admission.webhooks.review import Denied
from alcove.apiserver.outbound.errors import WebhookError


def answer(**response: Any) -> bytes:
    completed = {"uid": "u", "allowed": True, **response}
    return orjson.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": completed}
    )


def encoded(patch: Any) -> str:
    return base64.b64encode(orjson.dumps(patch)).decode()


def read(data: bytes, *, may_change: bool = True, version: str = "v1") -> review.WebhookVerdict:
    return review.decode(data, version, "u", may_change=may_change)


def test_a_patch_is_read() -> None:
    operations = [{"op": "add", "path": "/a", "value": 1}]
    verdict = read(answer(patch=encoded(operations), patchType="JSONPatch"))
    assert verdict.is_allowed and verdict.patch == operations


@pytest.mark.parametrize(
    ("response", "may_change", "message"),
    [
        ({"patch": encoded([])}, True, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, True, "webhook returned response.patchType but not response.patch"),
        ({"patch": encoded([]), "patchType": "Merge"}, True, 'unsupported patch type "Merge"'),
        ({"patch": "!", "patchType": "JSONPatch"}, True, "undecodable patch"),
        ({"patch": 7, "patchType": "JSONPatch"}, True, "undecodable patch"),
        ({"patchType": "JSONPatch"}, False, "validating webhook may not return response.patchType"),
        ({"allowed": "yes"}, False, "response.allowed must be true or false"),
        ({"uid": "other"}, False, 'expected response.uid="u", got "other"'),
    ],
)
def test_unusable_responses_are_rejected(response: dict[str, Any], may_change: bool, message: str) -> None:
    with pytest.raises(WebhookError, match=message):
        read(answer(**response), may_change=may_change)


def test_the_beta_version_is_not_held_to_uid_and_patch_type() -> None:
    patch = encoded([{"op": "remove", "path": "/a"}])
    verdict = read(answer(uid="", patch=patch), version="v1beta1")
    assert verdict.patch == [{"op": "remove", "path": "/a"}]


MANY: list[Any] = [[]] * VALUES_MAX


def test_a_response_of_very_many_values_is_not_parsed() -> None:
    with pytest.raises(WebhookError, match="it has more than 50000 values"):
        read(answer(more=MANY))
    with pytest.raises(WebhookError, match="it has more than 50000 values"):
        read(answer(patch=encoded(MANY), patchType="JSONPatch"))


def test_a_rejection_is_cut() -> None:
    verdict = read(answer(allowed=False, status={"message": "m" * 100_000, "reason": "r" * 100_000}))
    denied = Denied("hook", verdict.result)
    assert len(denied.message) < 20_000 and len(denied.reason) < 20_000


def test_warnings_and_annotations_are_bounded() -> None:
    verdict = read(
        answer(
            warnings=["x" * 5000, 7, *["w"] * 100],
            auditAnnotations={**{f"k{number}": "v" * 9000 for number in range(100)}},
        )
    )
    assert len(verdict.warnings) <= review.WARNINGS_MAX
    assert max(map(len, verdict.warnings)) == review.WARNING_LENGTH_MAX
    assert len(verdict.annotations) == review.ANNOTATIONS_MAX
    assert set(map(len, verdict.annotations.values())) == {review.ANNOTATION_LENGTH_MAX}


@pytest.mark.parametrize(
    ("result", "code", "reason", "message"),
    [
        ({}, 400, "", 'admission webhook "w" denied the request without explanation'),
        (
            {"reason": "Conflict", "code": 409},
            409,
            "Conflict",
            'admission webhook "w" denied the request: Conflict',
        ),
        ({"message": "no", "code": 302}, 400, "", 'admission webhook "w" denied the request: no'),
        ({"message": "no", "code": 99999}, 400, "", 'admission webhook "w" denied the request: no'),
        (
            {"message": "no", "code": "x", "details": {"causes": 7}},
            400,
            "",
            'admission webhook "w" denied the request: no',
        ),
    ],
)
def test_refusals(result: dict[str, Any], code: int, reason: str, message: str) -> None:
    denied = Denied("w", result)
    assert (denied.code, denied.reason, denied.message) == (code, reason, message)


def test_error_details_reach_the_client() -> None:
    details = {"name": "n", "causes": [{"reason": "r", "message": "m", "field": "f"}]}
    denied = Denied("w", {"message": "no", "details": details})
    assert denied.details is not None and denied.details.causes[0].field == "f"


json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["response", "uid", "allowed", "patch", "patchType", "status", "warnings", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json, st.booleans())
def test_arbitrary_responses_are_decoded_or_rejected(value: Any, may_change: bool) -> None:
    try:
        verdict = read(orjson.dumps(value), may_change=may_change)
    except WebhookError:
        return
    if not verdict.is_allowed:
        Denied("w", verdict.result)
