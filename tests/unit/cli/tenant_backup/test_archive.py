"""The format of a tenant's backup: what was written is read, and damage is noticed."""

import io
from collections.abc import Mapping, Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.cli.errors import CliError
from alcove.cli.tenant_backup.archive import (
    CHUNK_BYTES_MAX,
    LINE_BYTES_MAX,
    ArchivedObject,
    ArchiveHeader,
    ArchiveReader,
    ArchiveWriter,
)
from alcove.cli.tenant_backup.claims import Claim
from alcove.client.resources import Resource

MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def encoded(number: int, text: str = "") -> bytes:
    metadata = {"name": f"n-{number}", "namespace": "default", "tenant": "acme"}
    return orjson.dumps({"metadata": metadata, "data": {"text": text}})


def written(*bodies: bytes, volumes: Mapping[str, Sequence[bytes]] | None = None) -> bytes:
    out = io.BytesIO()
    writer = ArchiveWriter(out, ArchiveHeader("acme", "7", "now", version=1 if volumes is None else 2))
    writer.add(MAPS, list(bodies))
    for name, chunks in (volumes or {}).items():
        writer.begin_volume(Claim("default", name))
        for chunk in chunks:
            writer.add_chunk(chunk)
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


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.binary(max_size=40), max_size=4)))
def test_files_of_volumes_are_read_after_all_objects(volumes: dict[str, list[bytes]]) -> None:
    reader = ArchiveReader(io.BytesIO(written(encoded(1), volumes=volumes)))
    first, *rest = reader.entries()
    assert isinstance(first, ArchivedObject)
    found: dict[str, bytes] = {}
    for each in rest:
        assert not isinstance(each, ArchivedObject)
        found[each.claim.name] = found.get(each.claim.name, b"") + each.data
    assert found == {name: b"".join(chunks) for name, chunks in volumes.items()}


def test_a_part_of_a_volume_has_a_length_that_is_believed_only_up_to_a_limit() -> None:
    good = written(volumes={"data": [b"content"]})
    for wrong in (b"D 6", b"D 8", b"D x", b"D %d" % (CHUNK_BYTES_MAX + 1), b"D 999999999999"):
        with pytest.raises(CliError, match="damaged"):
            list(ArchiveReader(io.BytesIO(good.replace(b"D 7", wrong))).entries())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_anywhere_is_noticed(data: st.DataObject) -> None:
    volumes = {"data": [b"some\nfiles", b"more"]} if data.draw(st.booleans()) else None
    content = bytearray(written(encoded(1), encoded(2, "x" * 40), volumes=volumes))
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
