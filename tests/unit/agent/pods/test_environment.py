"""Environment variables of a container: their sources, and what happens if one is missing."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.environment import ContainerConfigError, ContainerEnvironment
from alcove.agent.runtime.expand import environment
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME

KEY = PodKey(HOME, TenantId("acme"), "default", "web", "u")
POD: Object = {
    "metadata": {"name": "web", "namespace": "default", "labels": {"app": "x"}},
    "spec": {"containers": [{"name": "a", "resources": {"limits": {"memory": "1Gi"}}}]},
    "status": {"podIP": "10.0.0.7"},
}


class Objects:
    """What the pod's namespace has."""

    async def config_map(self, _key: PodKey, name: str) -> Object | None:
        return {"data": {"k": "v$(X)", "bad=name": "x"}} if name == "c" else None

    async def secret(self, _key: PodKey, name: str) -> Object | None:
        return {"data": {"p": base64.b64encode(b"pa$$word").decode()}} if name == "s" else None


async def found(volumes: Mapping[str, Path] | None = None, /, **container: object) -> dict[str, str]:
    made = ContainerEnvironment(Objects(), {"cpu": "2", "memory": "4Gi"})  # type: ignore[arg-type]
    variables = await made.variables(
        KEY, POD, {"name": "a", **container}, {"SVC_HOST": "1.2.3.4"}, volumes or {}
    )
    return environment(variables)


def from_(**source: object) -> list[Object]:
    return [{"name": "V", "valueFrom": source}]


async def test_later_ones_win() -> None:
    env = [{"name": "SVC_HOST", "value": "own"}, {"name": "k", "value": "mine"}]
    assert await found(env=env, envFrom=[{"configMapRef": {"name": "c"}}]) == {"SVC_HOST": "own", "k": "mine"}


async def test_what_is_not_written_in_the_pod_is_not_expanded() -> None:
    env = [{"name": "X", "value": "x"}, {"name": "Y", "value": "$(X)"}]
    both = [{"prefix": "C_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]
    values = await found(env=env, envFrom=both)
    assert values["Y"] == "x"
    assert values["C_k"] == "v$(X)" and values["p"] == "pa$$word"
    assert "C_bad=name" not in values


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "web"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "x"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.0.0.7"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "1024"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "v$(X)"),
        ({"secretKeyRef": {"name": "s", "key": "p"}}, "pa$$word"),
        ({"secretKeyRef": {"name": "none", "key": "p", "optional": True}}, None),
        ({"configMapKeyRef": {"name": "c", "key": "none", "optional": True}}, None),
    ],
)
async def test_sources(source: Object, expected: str | None) -> None:
    assert (await found(env=from_(**source))).get("V") == expected


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"env": from_(configMapKeyRef={"name": "none", "key": "k"})}, 'configmap "none" not found'),
        ({"env": from_(secretKeyRef={"name": "s", "key": "no"})}, "couldn't find key no in Secret default/s"),
        ({"envFrom": [{"secretRef": {"name": "none"}}]}, 'secret "none" not found'),
    ],
)
async def test_missing_sources_are_reported(container: Object, message: str) -> None:
    with pytest.raises(ContainerConfigError, match=message) as raised:
        await found(**container)
    assert raised.value.reason == "CreateContainerConfigError"


async def test_a_variable_from_a_file_that_another_container_wrote(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("TOKEN='a$(X)b'\n")
    ref = {"volumeName": "shared", "path": "env", "key": "TOKEN"}
    volumes = {"shared": tmp_path}
    assert (await found(volumes, env=from_(fileKeyRef=ref)))["V"] == "a$(X)b"
    for missing in ({"key": "OTHER"}, {"path": "none"}):
        optional = from_(fileKeyRef={**ref, **missing, "optional": True})
        assert "V" not in await found(volumes, env=optional)
        with pytest.raises(ContainerConfigError):
            await found(volumes, env=from_(fileKeyRef={**ref, **missing}))
    with pytest.raises(ContainerConfigError, match="cannot find the volume"):
        await found({}, env=from_(fileKeyRef=ref))
