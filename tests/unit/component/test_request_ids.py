"""Ids that clients choose are taken only in a bounded, harmless form; ids made here give nothing away."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.component import request_ids


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, ""),
        ({"audit-id": "0b9fa3c6-8d1f-4d2a-9d51-7a6c5c1f2e11"}, "0b9fa3c6-8d1f-4d2a-9d51-7a6c5c1f2e11"),
        ({"x-request-id": "deploy_42.a"}, "deploy_42.a"),
        ({"audit-id": "first", "x-request-id": "second"}, "first"),
        ({"audit-id": "a" * 64}, "a" * 64),
        ({"audit-id": "a" * 65}, ""),
        ({"audit-id": ""}, ""),
        ({"audit-id": "two words"}, ""),
        ({"audit-id": 'a" level=error'}, ""),
        ({"audit-id": "a\nb"}, ""),
        ({"audit-id": "a\n"}, ""),
        ({"audit-id": "\x1b[2J"}, ""),
        ({"audit-id": "é"}, ""),
        ({"audit-id": "--flag"}, ""),
        # What was sent under the first name counts, even if it cannot be used.
        ({"audit-id": "two words", "x-request-id": "second"}, ""),
    ],
)
def test_an_id_of_the_client(headers: dict[str, str], expected: str) -> None:
    assert request_ids.from_headers(headers) == expected


@settings(deadline=None)
@given(st.text())
def test_whatever_is_taken_is_short_printable_ascii_without_spaces(text: str) -> None:
    taken = request_ids.from_headers({"audit-id": text})
    assert taken in ("", text)
    assert len(taken) <= request_ids.LENGTH_MAX
    assert taken.isascii() and taken.isprintable() and not set(taken) & set(" \"'=\\,;")


def test_made_ids_differ_can_be_sent_on_and_are_not_counted() -> None:
    made = request_ids.generate()
    ids = [next(made) for _ in range(1_000)] + [request_ids.new() for _ in range(10)]
    assert len(set(ids)) == len(ids)
    assert all(request_ids.from_headers({"audit-id": each}) == each for each in ids)
    prefixes = {each[:8] for each in ids} | {each[-8:] for each in ids}
    assert len(prefixes) > 2_000


async def test_a_task_keeps_its_own_id() -> None:
    async def child() -> dict[str, str]:
        await asyncio.sleep(0)
        return request_ids.outgoing()

    with request_ids.scope("abc"):
        inherited = asyncio.create_task(child())
        own = asyncio.create_task(child(), context=request_ids.new_context())
    assert request_ids.outgoing() == {}
    assert await inherited == {"Audit-ID": "abc"}
    assert (await own)["Audit-ID"] not in ("", "abc")
