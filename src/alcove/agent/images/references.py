"""Image references, `[host/]path[:tag][@digest]`, and when two of them refer to the same image on this
node."""

import re

LATEST = "latest"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
# A host has a dot or a port, or is `localhost`; otherwise it is a part of the path.
_HOST = (
    rf"(?:(?:localhost|{_LABEL}(?:\.{_LABEL})+)(?::[0-9]+)?|{_LABEL}:[0-9]+|\[[0-9a-fA-F:]+\](?::[0-9]+)?)"
)
_NAME = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)
_LENGTH_MAX = 512


class InvalidImageName(ValueError):
    pass


def full(name: str) -> str:
    """The name with a tag or digest. Raises InvalidImageName."""
    if len(name) > _LENGTH_MAX or not _NAME.fullmatch(name):
        raise InvalidImageName(f'couldn\'t parse image name "{name}": invalid reference format')
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:{LATEST}"


def is_latest(name: str) -> bool:
    """Whether the default pull policy of the image is Always."""
    return full(name).endswith(f":{LATEST}")


def path_of(name: str) -> str:
    """The name without the registry's host."""
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and (any(each in first for each in ".:[") or first == "localhost")
    return rest if is_host else name


def repository(name: str) -> str:
    """The name without tag and digest."""
    bare = name.partition("@")[0]
    return bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare


def same(requested: str, existing: str) -> bool:
    """Whether `requested` refers to the image named `existing`: a name without a host matches any host."""
    if requested == existing:
        return True
    if path_of(requested) != requested:
        return False
    return path_of(existing) in (requested, f"library/{requested}")
