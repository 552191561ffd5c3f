"""Token reviews and token requests."""

import pytest

from alcove.api.errors import BadRequest
from alcove.api.kinds.authentication import STRATEGIES
from alcove.api.objects import Object


def test_review_needs_a_token() -> None:
    assert not STRATEGIES["tokenreviews"].validate({"spec": {"token": "t"}})
    with pytest.raises(BadRequest, match="token is required for TokenReview in authentication"):
        STRATEGIES["tokenreviews"].validate({"spec": {}})


def test_token_lasts_an_hour_by_default() -> None:
    request: Object = {}
    STRATEGIES["tokenrequests"].default(request)
    assert request == {"spec": {"expirationSeconds": 3600}}
    assert not STRATEGIES["tokenrequests"].validate(request)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (
            599,
            ["spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"],
        ),
        (600, []),
        (2**32, []),
        (
            2**32 + 1,
            [
                "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"
            ],
        ),
    ],
)
def test_token_request(seconds: int, expected: list[str]) -> None:
    errors = STRATEGIES["tokenrequests"].validate({"spec": {"expirationSeconds": seconds}})
    assert [str(error) for error in errors] == expected
