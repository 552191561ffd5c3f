import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.server.spdy.headers import DICTIONARY, BadHeaders, Compressor, Decompressor

NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


def test_the_dictionary_is_the_protocols() -> None:
    # Its length and checksum, which zlib itself puts into every stream that uses it.
    assert len(DICTIONARY) == 1_423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=8), min_size=1, max_size=5))
def test_blocks_come_out_as_they_went_in_one_after_the_other(blocks: list[dict[str, str]]) -> None:
    compressor, decompressor = Compressor(), Decompressor()
    assert [decompressor.decompress(compressor.compress(block)) for block in blocks] == blocks


def test_names_are_in_lower_case_and_the_first_value_counts() -> None:
    compressor = Compressor()
    block = compressor.compress({"StreamType": "data\0other"})
    assert Decompressor().decompress(block) == {"streamtype": "data"}


@pytest.mark.parametrize("block", [b"", b"garbage", Compressor().compress({"a": "b"})[:-8]])
def test_what_is_no_block_is_refused(block: bytes) -> None:
    with pytest.raises(BadHeaders):
        Decompressor().decompress(block)


def test_a_block_that_unpacks_to_very_much_is_refused() -> None:
    packer = zlib.compressobj(zdict=DICTIONARY)
    block = packer.compress(bytes(10 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(BadHeaders, match="more than"):
        Decompressor().decompress(block)


def test_a_length_beyond_the_block_is_refused() -> None:
    packer = zlib.compressobj(zdict=DICTIONARY)
    block = packer.compress(bytes([0, 0, 0, 1, 0, 0, 0, 99]) + b"short") + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(BadHeaders, match="too early"):
        Decompressor().decompress(block)
