"""Registry credentials from the pull secrets of a pod: which of them apply to an image, in which order.

skopeo chooses the entry for a registry; this module only resolves patterns in entries' hosts
(`*.example.com`), which skopeo does not support. Only the credentials themselves are copied from a secret.
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
    """The credentials to try in order; if no secret applies, one without credentials (anonymous)."""
    candidates: list[RegistryCredentials] = []
    for secret in secrets:
        auths = _matching_auths(_host(name), _entries(secret))
        if auths and RegistryCredentials(auths) not in candidates:
            candidates.append(RegistryCredentials(auths))
    return candidates or [RegistryCredentials()]


def _host(name: str) -> str:
    """The registry's host; empty if the name has none, then skopeo chooses the registry."""
    path = path_of(name)
    return name.removesuffix(path).removesuffix("/") if path != name else ""


def _entries(secret: Object) -> Object:
    data = secret.get("data") or {}
    try:
        if _CONFIG in data:
            entries = orjson.loads(base64.b64decode(data[_CONFIG])).get("auths")
        else:
            entries = orjson.loads(base64.b64decode(data.get(_OLD_CONFIG) or "e30="))
    except (binascii.Error, orjson.JSONDecodeError, AttributeError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _matching_auths(host: str, entries: Object) -> Object:
    auths: Object = {}
    for registry, entry in entries.items():
        auth = _auth(entry)
        if auth is None:
            continue
        bare = registry.removeprefix("https://").removeprefix("http://")
        entry_host, slash, path = bare.partition("/")
        if not host:
            auths[registry] = auth
        elif entry_host == host or (_PATTERN & set(entry_host) and _matches(host, entry_host)):
            path = path.strip("/")
            is_api = path in ("v1", "v2") or not slash
            auths[host if is_api or not path else f"{host}/{path}"] = auth
    return auths


def _matches(host: str, pattern: str) -> bool:
    """Compares label by label: `*` matches within one label only, never a dot or the port."""
    name, _, port = host.partition(":")
    pattern_name, _, pattern_port = pattern.partition(":")
    labels, patterns = name.split("."), pattern_name.split(".")
    if len(labels) != len(patterns) or port != pattern_port:
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
