"""Encrypted backups: any content comes back, and any change of it is noticed."""

import io
from typing import BinaryIO, cast

import pytest

from alcove.cli.errors import CliError
from alcove.cli.tenant_backup import sealing
from alcove.cli.tenant_backup.sealing import CHUNK_BYTES, MAGIC, SealingWriter, UnsealingReader

PHRASE = b"correct horse"
SEALED_CHUNK = CHUNK_BYTES + 16


@pytest.fixture(autouse=True)
def cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a key costs is no matter of the format: one test uses the real cost."""
    monkeypatch.setattr(sealing, "SCRYPT_N", 1 << 4)


def sealed(*chunks: bytes) -> bytes:
    out = io.BytesIO()
    writer = SealingWriter(out, PHRASE)
    for chunk in chunks:
        writer.write(chunk)
    writer.finish()
    return out.getvalue()


def opened(content: bytes, phrase: bytes = PHRASE) -> bytes:
    stream = io.BytesIO(content)
    assert stream.read(len(MAGIC)) == MAGIC
    return io.BufferedReader(UnsealingReader(cast(BinaryIO, stream), phrase)).read()


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7]
)
def test_what_was_written_is_read(size: int) -> None:
    content = bytes(index % 251 for index in range(size))
    assert opened(sealed(content[: size // 3], content[size // 3 :])) == content


def test_a_key_takes_as_much_memory_as_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert sealing.SCRYPT_N * 8 * 128 == 64 << 20
    assert opened(sealed(b"content")) == b"content"


def test_nothing_of_the_content_is_seen() -> None:
    assert b"password" not in sealed(b"password" * 100)


def test_every_change_is_noticed() -> None:
    content = sealed(b"a" * CHUNK_BYTES, b"b" * CHUNK_BYTES, b"c")
    head = len(content) - 2 * SEALED_CHUNK - 17
    first, second, last = (
        content[head : head + SEALED_CHUNK],
        content[head + SEALED_CHUNK : head + 2 * SEALED_CHUNK],
        content[head + 2 * SEALED_CHUNK :],
    )
    flipped = bytes([first[0] ^ 1]) + first[1:]
    changed = {
        "a bit": content[:head] + flipped + second + last,
        "chunks swapped": content[:head] + second + first + last,
        "cut at a chunk": content[:head] + first + second,
        "cut to one chunk": content[:head] + first,
        "cut within a chunk": content[:-5],
        "a chunk left out": content[:head] + second + last,
        "something appended": content + b"x",
        "another salt": content[: len(MAGIC)] + b"x" + content[len(MAGIC) + 1 :],
    }
    for what, bytes_ in changed.items():
        with pytest.raises(CliError, match="cannot be decrypted"):
            opened(bytes_)
            pytest.fail(f"{what} was not noticed")


def test_another_passphrase_does_not_open_it() -> None:
    with pytest.raises(CliError, match="passphrase"):
        opened(sealed(b"content"), b"correct house")
