"""Credentials for registries, from the pull secrets of one pod: which of them may serve an image, in what order.

Which entry of a secret fits a registry is skopeo's to say; here patterns in entries' hosts are resolved
(`*.example.com`), which it does not know. Nothing but the credentials themselves is taken from a secret.
"""

import base64
import binascii
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import orjson

from alcove.agent.images.references import path_of
from alcove.agent.images.tools import RegistryCredentials
from alcove.api.objects import Object

_CONFIG, _OLD_CONFIG = ".dockerconfigjson", ".dockercfg"
_PATTERN = frozenset("*?[")


def for_image(name: str, secrets: Iterable[Object]) -> list[RegistryCredentials]:
    """To be tried one after the other; at least one, which may be nobody's."""
    found: list[RegistryCredentials] = []
    for secret in secrets:
        auths = _fitting(_host(name), _entries(secret))
        if auths and RegistryCredentials(auths) not in found:
            found.append(RegistryCredentials(auths))
    return found or [RegistryCredentials()]


def _host(name: str) -> str:
    """Empty for a name without one: which registry serves it, skopeo decides."""
    path = path_of(name)
    return name.removesuffix(path).removesuffix("/") if path != name else ""


def _entries(secret: Object) -> Object:
    data = secret.get("data") or {}
    try:
        if _CONFIG in data:
            told = orjson.loads(base64.b64decode(data[_CONFIG])).get("auths")
        else:
            told = orjson.loads(base64.b64decode(data.get(_OLD_CONFIG) or "e30="))
    except (binascii.Error, orjson.JSONDecodeError, AttributeError):
        return {}
    return told if isinstance(told, dict) else {}


def _fitting(host: str, entries: Object) -> Object:
    auths: Object = {}
    for place, entry in entries.items():
        auth = _auth(entry)
        if auth is None:
            continue
        bare = place.removeprefix("https://").removeprefix("http://")
        entry_host, slash, path = bare.partition("/")
        if not host:
            auths[place] = auth
        elif entry_host == host or (_PATTERN & set(entry_host) and _matches(host, entry_host)):
            path = path.strip("/")
            is_api = path in ("v1", "v2") or not slash
            auths[host if is_api or not path else f"{host}/{path}"] = auth
    return auths


def _matches(host: str, pattern: str) -> bool:
    """Label by label: a star stands for one label, or a part of one, never for a dot or the port."""
    name, _, port = host.partition(":")
    wanted, _, wanted_port = pattern.partition(":")
    labels, patterns = name.split("."), wanted.split(".")
    if len(labels) != len(patterns) or port != wanted_port:
        return False
    return all(fnmatchcase(label, each) for label, each in zip(labels, patterns, strict=True))


def _auth(entry: Any) -> Object | None:
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return {field: str(entry[field]) for field in ("auth", "identitytoken") if entry.get(field)}
    if entry.get("auth"):
        return {"auth": str(entry["auth"])}
    if entry.get("username"):
        pair = f"{entry['username']}:{entry.get('password') or ''}"
        return {"auth": base64.b64encode(pair.encode()).decode()}
    return None
