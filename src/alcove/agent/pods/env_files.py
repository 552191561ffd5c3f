"""Environment variables from files that a pod's own containers wrote (`fileKeyRef`), in Kubernetes' format.

A line is `NAME='value'`: the value is literal and may have several lines; a comment may follow it. Blank lines and lines
that begin with `#` do not count. Blanks after `=` make the value empty.
"""

import re
from pathlib import Path

from alcove.agent import untrusted_files

FILE_BYTES_MAX = 128 << 10
"""What is read of such a file: as much as a container's whole environment may have."""
_ASSIGNMENT = re.compile(r"[ \t]*(?P<name>[^=\s]+)=(?:'(?P<value>[^']*)'[ \t]*(?:#.*)?|[ \t].*)(?:\n|\Z)")
_IGNORED = re.compile(r"[ \t]*(?:#.*)?(?:\n|\Z)")


class EnvFileError(Exception):
    """The file does not exist, is too large, or is not in the format."""


def value(directory: Path, path: str, key: str) -> str | None:
    """The value of `key` in the file `path` of a volume; None if the file does not have it. Blocks. Raises
    EnvFileError."""
    head = untrusted_files.read_head(directory, path, FILE_BYTES_MAX + 1)
    if head is None:
        raise EnvFileError(f"no such file: {path}")
    if len(head) > FILE_BYTES_MAX:
        raise EnvFileError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return parse(head.decode(errors="surrogateescape"), key)


def parse(text: str, key: str) -> str | None:
    """The first value of `key`; None if it has none. Raises EnvFileError."""
    at = 0
    while at < len(text):
        ignored = _IGNORED.match(text, at)
        if ignored is not None:
            at = ignored.end()
            continue
        assignment = _ASSIGNMENT.match(text, at)
        if assignment is None:
            number = text.count("\n", 0, at) + 1
            raise EnvFileError(f"invalid environment variable format at line {number}: expected NAME='value'")
        if assignment["name"] == key:
            return assignment["value"] or ""
        at = assignment.end()
    return None
