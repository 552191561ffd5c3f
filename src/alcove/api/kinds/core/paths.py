"""Paths of files inside volumes and on nodes: relative where they must be, never climbing out."""

from alcove.api.fields import invalid
from alcove.api.validation import Faults

FILE_MODE_FAULT = "must be a number between 0 and 0777 (octal), both inclusive"


def check_no_backsteps(path: str, field: str, faults: Faults) -> None:
    if ".." in path and ".." in path.split("/"):
        faults.append(invalid(field, path, "must not contain '..'"))


def check_descending(path: str, field: str, faults: Faults) -> None:
    """Relative, and below where it starts."""
    if path.startswith("/"):
        faults.append(invalid(field, path, "must be a relative path"))
    check_no_backsteps(path, field, faults)


def check_not_reserved(path: str, field: str, faults: Faults) -> None:
    """A file's path in a volume, where names that start with `..` are the volume's own."""
    check_descending(path, field, faults)
    if path.startswith("..") and not path.startswith("../"):
        faults.append(invalid(field, path, "must not start with '..'"))


def check_file_mode(mode: int | None, field: str, faults: Faults) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        faults.append(invalid(field, mode, FILE_MODE_FAULT))
