"""The environment variables of a container, with references resolved but `$(NAME)` not expanded.

Order: service variables, `envFrom`, `env`. A later variable of the same name wins.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from pathlib import Path

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.pods import env_files
from alcove.agent.pods.executor import ContainerStartError
from alcove.agent.volumes import downward
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.objects import Object

Variables = list[tuple[str, str]]


class ContainerConfigError(ContainerStartError):
    def __init__(self, message: str) -> None:
        super().__init__("Failed", f"Error: {message}", "CreateContainerConfigError")


class ContainerEnvironment:
    def __init__(self, lookup: ObjectLookup, allocatable: Mapping[str, str]) -> None:
        self._lookup = lookup
        self._allocatable = allocatable

    async def variables(
        self,
        key: PodKey,
        pod: Object,
        container: Object,
        services: Mapping[str, str],
        volumes: Mapping[str, Path],
    ) -> Variables:
        """`pod` must have its addresses in the status; `volumes` are the directories of its volumes. Raises
        ContainerConfigError if a reference is missing."""
        variables: Variables = [(name, _literal(value)) for name, value in services.items()]
        for source in container.get("envFrom") or ():
            variables += await self._all_of(key, source)
        for each in container.get("env") or ():
            if "valueFrom" in each:
                if ref := each["valueFrom"].get("fileKeyRef"):
                    value = await asyncio.to_thread(_from_file, ref, volumes)
                else:
                    value = await self._from(key, pod, container, each["valueFrom"])
                if value is not None:
                    variables.append((each["name"], _literal(value)))
            else:
                variables.append((each["name"], each.get("value") or ""))
        return variables

    async def _all_of(self, key: PodKey, source: Object) -> Variables:
        prefix = source.get("prefix") or ""
        if ref := source.get("configMapRef"):
            data = await self._config_map(key, ref)
        elif ref := source.get("secretRef"):
            data = await self._secret(key, ref)
        else:
            data = None
        named = ((f"{prefix}{name}", value) for name, value in sorted((data or {}).items()))
        return [(name, _literal(value)) for name, value in named if name and "=" not in name]

    async def _from(self, key: PodKey, pod: Object, container: Object, source: Object) -> str | None:
        try:
            if ref := source.get("fieldRef"):
                return downward.field(pod, ref.get("fieldPath") or "")
            if ref := source.get("resourceFieldRef"):
                ref = {**ref, "containerName": ref.get("containerName") or container["name"]}
                return downward.resource(pod, ref, self._allocatable)
        except VolumeFailure as error:
            raise ContainerConfigError(str(error)) from error
        if ref := source.get("configMapKeyRef"):
            return _value(await self._config_map(key, ref), key, ref, "ConfigMap")
        if ref := source.get("secretKeyRef"):
            return _value(await self._secret(key, ref), key, ref, "Secret")
        return None

    async def _config_map(self, key: PodKey, ref: Object) -> dict[str, str] | None:
        config_map = await self._lookup.config_map(key, ref.get("name") or "")
        if config_map is None:
            _check_optional(ref, "configmap")
            return None
        binary = {name: _decoded(value) for name, value in (config_map.get("binaryData") or {}).items()}
        return {**binary, **(config_map.get("data") or {})}

    async def _secret(self, key: PodKey, ref: Object) -> dict[str, str] | None:
        secret = await self._lookup.secret(key, ref.get("name") or "")
        if secret is None:
            _check_optional(ref, "secret")
            return None
        return {name: _decoded(value) for name, value in (secret.get("data") or {}).items()}


def _from_file(ref: Object, volumes: Mapping[str, Path]) -> str | None:
    directory, key = volumes.get(ref.get("volumeName") or ""), ref.get("key") or ""
    if directory is None:
        raise ContainerConfigError(
            f'cannot find the volume "{ref.get("volumeName")}" referenced by FileKeyRef'
        )
    try:
        value = env_files.value(directory, ref.get("path") or "", key)
    except env_files.EnvFileError as error:
        if ref.get("optional"):
            return None
        raise ContainerConfigError(f"couldn't parse env file: {error}") from error
    if value is None and not ref.get("optional"):
        raise ContainerConfigError(f'environment variable key "{key}" not found in file "{ref.get("path")}"')
    return value


def _literal(value: str) -> str:
    """Escapes dollar signs: only values written in the pod's spec are expanded."""
    return value.replace("$", "$$")


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="surrogateescape")
    except (binascii.Error, ValueError):
        return ""


def _check_optional(ref: Object, kind: str) -> None:
    if not ref.get("optional"):
        raise ContainerConfigError(f'{kind} "{ref.get("name")}" not found')


def _value(data: Mapping[str, str] | None, key: PodKey, ref: Object, kind: str) -> str | None:
    if data is None:
        return None
    value = data.get(ref.get("key") or "")
    if value is None and not ref.get("optional"):
        raise ContainerConfigError(
            f"couldn't find key {ref.get('key')} in {kind} {key.namespace}/{ref.get('name')}"
        )
    return value
