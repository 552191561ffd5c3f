"""Files of one volume that have the same path, or a path inside another file."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from alcove.api.objects import Object

Source = tuple[str, str]
"""A path inside the volume, and a description of the source that creates it."""


def warnings(volumes: Iterable[Object]) -> list[str]:
    messages: list[str] = []
    for volume in volumes:
        if "projected" in volume:
            messages += () if _are_apart(volume["projected"].get("sources") or ()) else _projected(volume)
        else:
            messages += _plain(volume)
    return messages


def _plain(volume: Object) -> Iterator[str]:
    for field, (kind, named) in _PLAIN.items():
        source = volume.get(field)
        if source:
            title = f'{kind} "{source.get(named, "")}"' if named else kind
            for message in _overlaps([(item.get("path", ""), "") for item in source.get("items") or ()]):
                yield f'volume "{volume["name"]}" ({title}): overlapping paths: {message}'


_PLAIN = {
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "downwardAPI": ("DownwardAPI", ""),
}


def _are_apart(sources: Iterable[Object]) -> bool:
    """Whether all files have different names in one directory, as in every pod's token volume."""
    paths: list[str] = []
    for source in sources:
        for fields in source.values():
            if "path" in fields:
                paths.append(fields["path"])
            else:
                paths += [item.get("path", "") for item in fields.get("items") or ()]
        if not source or "podCertificate" in source:
            return False
    return len(set(paths)) == len(paths) and "/" not in "".join(paths)


def _projected(volume: Object) -> Iterator[str]:
    name = volume["name"]
    messages: list[Source] = []
    for source in volume["projected"].get("sources") or ():
        if not source:
            yield f'volume "{name}" (Projected) has no sources provided'
        for kind, fields in source.items():
            messages += _FILES[kind](fields) if kind in _FILES else ()
    for message in _overlaps(messages):
        yield f'volume "{name}" (Projected): overlapping paths: {message}'


def _items(title: str) -> Callable[[Object], list[Source]]:
    """Return a function that lists the files of a source with `items`."""

    def files(source: Object) -> list[Source]:
        shown = title.format(source.get("name", ""))
        return [(item.get("path", ""), shown) for item in source.get("items") or ()]

    return files


def _bundle(bundle: Object) -> list[Source]:
    name = bundle.get("name") or bundle.get("signerName", "")
    return [(bundle.get("path", ""), f'ClusterTrustBundle "{name}"')]


def _certificate(certificate: Object) -> list[Source]:
    parts = {
        "certificateChainPath": "chain",
        "keyPath": "key",
        "credentialBundlePath": "credential bundle",
    }
    return [
        (certificate[field], f"PodCertificate {part}")
        for field, part in parts.items()
        if certificate.get(field)
    ]


_FILES: dict[str, Callable[[Object], list[Source]]] = {
    "configMap": _items('ConfigMap "{}"'),
    "secret": _items('Secret "{}"'),
    "downwardAPI": _items("DownwardAPI"),
    "serviceAccountToken": lambda token: [(token.get("path", ""), "ServiceAccountToken")],
    "clusterTrustBundle": _bundle,
    "podCertificate": _certificate,
}


def _overlaps(files: Sequence[Source]) -> Iterator[str]:
    paths = {path for path, _ in files}
    if len(paths) == len(files) and not any("/" in path for path in paths):
        return  # The common case: different names in one directory.
    before: list[Source] = []
    for path, source in files:
        path = path.rstrip("/")
        for other, other_source in before:
            if f"{other}/".startswith(f"{path}/") or f"{path}/".startswith(f"{other}/"):
                yield f"{_shown(path, source)} with {_shown(other, other_source)}"
        if path:
            before.append((path, source))


def _shown(path: str, source: str) -> str:
    return f'"{path}" ({source})' if source else f'"{path}"'
