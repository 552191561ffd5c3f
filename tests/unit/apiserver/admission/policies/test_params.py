"""Parameters of policies: found by name or label, and decoded when they are used."""

import threading
from collections.abc import Mapping

import pytest

from alcove.api import registry
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.resources import CONFIG_MAPS
from alcove.apiserver.admission.policies.params import Param, ParamsError, collect
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.computing import LARGE_BYTES, ComputeThreads
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}


def config_map(name: str, size: int = 10, labels: Mapping[str, str] = {}) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "labels": labels}, "data": {"x": "y" * size}}


async def found(reader: MemoryReader, reference: Object) -> list[Param | None]:
    kinds = CustomKinds(registry.load(), reader, lambda: 0.0)
    return list(await collect(reader, kinds, ComputeThreads(), ACME, "n", CONFIG_MAP, reference))


async def test_by_name_and_by_label() -> None:
    reader = MemoryReader()
    for name, labels in (("a", {"of": "x"}), ("b", {"of": "y"}), ("c", {"of": "x"})):
        reader.put(ACME, CONFIG_MAPS, config_map(name, labels=labels))
    for reference, names in (
        ({"name": "b"}, ["b"]),
        ({"name": "z"}, []),
        ({"selector": {"matchLabels": {"of": "x"}}}, ["a", "c"]),
        ({"selector": {}}, ["a", "b", "c"]),
    ):
        objects = [each.object() for each in await found(reader, reference) if each is not None]
        assert [each["metadata"]["name"] for each in objects] == names
        assert all((each["apiVersion"], each["kind"]) == ("v1", "ConfigMap") for each in objects)
    with pytest.raises(ParamsError, match="no params found"):
        await found(reader, {"name": "z", "parameterNotFoundAction": "Deny"})


async def test_many_bytes_are_searched_beside_the_event_loop_and_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One request would otherwise stop the server for as long as it takes to decode all that its tenant has stored."""
    reader = MemoryReader()
    for number in range(10):
        reader.put(ACME, CONFIG_MAPS, config_map(f"c{number}", LARGE_BYTES, {"of": str(number % 2)}))
    looked_at: set[str] = set()
    decoded: list[CacheEntry] = []
    labels = CacheEntry.labels.fget  # type: ignore[attr-defined]

    def watched(entry: CacheEntry) -> dict[str, str]:
        looked_at.add(threading.current_thread().name)
        result: dict[str, str] = labels(entry)
        return result

    def decode(entry: CacheEntry) -> Object:
        decoded.append(entry)
        return entry.decode()

    monkeypatch.setattr(CacheEntry, "labels", property(watched))
    monkeypatch.setattr(CacheEntry, "object", property(decode))
    params = await found(reader, {"selector": {"matchLabels": {"of": "1"}}})
    assert len(params) == 5 and not decoded
    assert threading.current_thread().name not in looked_at
    assert params[0] is not None and params[0].object()["metadata"]["name"] == "c1"
    assert len(decoded) == 1
