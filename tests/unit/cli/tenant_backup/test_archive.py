"""The format of a tenant's backup: what was written is read, and damage is noticed."""

import io

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.cli.errors import CliError
from alcove.cli.tenant_backup.archive import LINE_BYTES_MAX, ArchiveHeader, ArchiveReader, ArchiveWriter
from alcove.client.resources import Resource

MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def encoded(number: int, text: str = "") -> bytes:
    metadata = {"name": f"n-{number}", "namespace": "default", "tenant": "acme"}
    return orjson.dumps({"metadata": metadata, "data": {"text": text}})


def written(*bodies: bytes) -> bytes:
    out = io.BytesIO()
    writer = ArchiveWriter(out, ArchiveHeader("acme", "7", "now"))
    writer.add(MAPS, list(bodies))
    writer.end()
    assert writer.size_bytes == len(out.getvalue())
    return out.getvalue()


@given(st.lists(st.text(max_size=50), max_size=5))
def test_what_was_written_is_read(texts: list[str]) -> None:
    content = written(*(encoded(number, text) for number, text in enumerate(texts)))
    reader = ArchiveReader(io.BytesIO(content))
    assert reader.header.tenant == "acme"
    objects = list(reader.objects())
    assert [each.obj["data"]["text"] for each in objects] == texts
    assert {each.resource for each in objects} <= {MAPS}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_anywhere_is_noticed(data: st.DataObject) -> None:
    content = bytearray(written(encoded(1), encoded(2, "x" * 40)))
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CliError):
        list(ArchiveReader(io.BytesIO(bytes(content))).objects())


def test_a_formatted_object_is_one_line() -> None:
    pretty = encoded(1).replace(b",", b",\n")
    (found,) = ArchiveReader(io.BytesIO(written(pretty))).objects()
    assert found.name == "n-1"


def test_a_line_without_end_is_not_read_into_memory() -> None:
    with pytest.raises(CliError, match="too long"):
        ArchiveReader(io.BytesIO(b"H " + b"x" * (LINE_BYTES_MAX + 10)))
