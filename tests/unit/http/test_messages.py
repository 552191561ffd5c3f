"""Large bodies are put together slice by slice, and nothing is lost between two slices."""

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.http.messages import SLICE_BYTES, BodyParts, slices

sizes = st.sampled_from(
    [0, 1, 100, SLICE_BYTES // 2, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 3 * SLICE_BYTES]
)


@settings(deadline=None, max_examples=60)
@given(st.lists(sizes, max_size=8), st.sampled_from([b"", b",", b"--"]))
def test_slices_are_the_joined_parts(lengths: list[int], separator: bytes) -> None:
    parts = [bytes([65 + index]) * length for index, length in enumerate(lengths)]
    body = BodyParts(parts, separator)
    expected = separator.join(parts)
    found = list(body.slices())
    assert b"".join(found) == expected == bytes(body)
    assert len(body) == len(expected)
    assert all(len(each) <= 2 * SLICE_BYTES + 8 * len(separator) for each in found)


def test_slices_of_bytes() -> None:
    body = bytes(SLICE_BYTES) + b"x"
    assert [len(each) for each in slices(body)] == [SLICE_BYTES, 1]
    assert list(slices(b"")) == []
