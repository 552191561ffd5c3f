"""Names of images: `[host/]path[:tag][@digest]`, and when two of them mean the same image on this node."""

import re

LATEST = "latest"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
# A host is known by a dot, a port or its name: else it would be a part of the path.
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
    """The name with a tag or digest. BadImageName: no image can have such a name."""
    if len(name) > _LENGTH_MAX or not _NAME.fullmatch(name):
        raise InvalidImageName(f'couldn\'t parse image name "{name}": invalid reference format')
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:{LATEST}"


def is_latest(name: str) -> bool:
    """Whether a pull policy that is not given means to pull always."""
    return full(name).endswith(f":{LATEST}")


def path_of(name: str) -> str:
    """The name without the host it is fetched from."""
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and (any(each in first for each in ".:[") or first == "localhost")
    return rest if is_host else name


def repository(name: str) -> str:
    """The name without tag and digest."""
    bare = name.partition("@")[0]
    return bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare


def same(asked: str, known: str) -> bool:
    """Whether an image that is known by one name answers to another: a name without a host fits any host."""
    if asked == known:
        return True
    if path_of(asked) != asked:
        return False
    return path_of(known) in (asked, f"library/{asked}")
