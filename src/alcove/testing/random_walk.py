"""Random requests to several API servers, or workers, of one cluster, whose answers must be those of one server.

What one of them acknowledged, the others show at once, and none refuses a write because it has not seen what another
acknowledged.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from alcove.testing.server import Caller

MAPS = "/api/v1/namespaces/default/configmaps"


class RandomWalk:
    """One user's requests, each at any worker, and what they must be answered with."""

    def __init__(self, callers: Sequence[Caller], seed: int) -> None:
        self._callers = callers
        self._random = random.Random(seed)
        self._prefix = f"walk-{seed}-"
        self._objects: dict[str, dict[str, Any]] = {}
        self._revision = 0
        self._number = 0

    def run(self, steps: int) -> None:
        actions = [self._create, self._replace, self._replace_outdated, self._delete, self._read, self._list]
        for _ in range(steps):
            name = f"{self._prefix}{self._random.randrange(8)}"
            self._random.choice([*actions, self._new_namespace])(name)

    def _caller(self) -> Caller:
        return self._random.choice(self._callers)

    def _created(self) -> dict[str, str]:
        self._number += 1
        return {"v": str(self._number)}

    def _create(self, name: str) -> None:
        body = {"metadata": {"name": name}, "data": self._created()}
        answer = self._caller().post(MAPS, body)
        assert answer.status == (409 if name in self._objects else 201), answer.body
        if answer.status == 201:
            self._objects[name] = answer.json

    def _replace(self, name: str) -> None:
        if name in self._objects:
            answer = self._caller().put(f"{MAPS}/{name}", {**self._objects[name], "data": self._created()})
            assert answer.status == 200, answer.body
            self._objects[name] = answer.json

    def _replace_outdated(self, name: str) -> None:
        if name in self._objects:
            outdated = self._objects[name]
            self._replace(name)
            answer = self._caller().put(f"{MAPS}/{name}", {**outdated, "data": self._created()})
            assert answer.status == 409, answer.body

    def _delete(self, name: str) -> None:
        answer = self._caller().delete(f"{MAPS}/{name}")
        assert answer.status == (200 if self._objects.pop(name, None) else 404), answer.body

    def _read(self, name: str) -> None:
        answer = self._caller().get(f"{MAPS}/{name}")
        if name in self._objects:
            assert answer.status == 200 and answer.json == self._objects[name]
        else:
            assert answer.status == 404

    def _list(self, _name: str) -> None:
        listed = self._caller().get(MAPS).json
        found = {each["metadata"]["name"]: each for each in listed["items"]}
        ours = {name: each["data"] for name, each in found.items() if name.startswith(self._prefix)}
        assert ours == {name: each["data"] for name, each in self._objects.items()}
        revision = int(listed["metadata"]["resourceVersion"])
        assert revision >= self._revision, "the list went back in time"
        self._revision = revision

    def _new_namespace(self, _name: str) -> None:
        """What one worker acknowledged, another must not miss when it decides about a write."""
        self._number += 1
        name = f"{self._prefix}{self._number}"
        assert self._caller().post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
        path = f"/api/v1/namespaces/{name}/configmaps"
        answer = self._caller().post(path, {"metadata": {"name": "first"}})
        assert answer.status == 201, answer.body


def increment(callers: Sequence[Caller], seed: int, name: str, count: int) -> None:
    """Adds to a counter by reading and replacing it, each with any of the callers, which are closed in the end."""
    chosen = random.Random(seed)
    revision, done = 0, 0
    while done < count:
        counter = chosen.choice(callers).get(f"{MAPS}/{name}").json
        assert int(counter["metadata"]["resourceVersion"]) >= revision, "the object went back in time"
        revision = int(counter["metadata"]["resourceVersion"])
        counter["data"]["count"] = str(int(counter["data"]["count"]) + 1)
        answer = chosen.choice(callers).put(f"{MAPS}/{name}", counter)
        assert answer.status in (200, 409), answer.body
        done += answer.status == 200
    for caller in callers:
        caller.close()
