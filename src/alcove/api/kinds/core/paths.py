"""Paths of files inside volumes and on nodes: relative where required, and without `..`."""

from alcove.api.fields import invalid
from alcove.api.validation import FieldErrors

FILE_MODE_ERROR = "must be a number between 0 and 0777 (octal), both inclusive"


def check_no_backsteps(path: str, field: str, errors: FieldErrors) -> None:
    if ".." in path and ".." in path.split("/"):
        errors.append(invalid(field, path, "must not contain '..'"))


def check_descending(path: str, field: str, errors: FieldErrors) -> None:
    """Check a relative path without `..`."""
    if path.startswith("/"):
        errors.append(invalid(field, path, "must be a relative path"))
    check_no_backsteps(path, field, errors)


def check_not_reserved(path: str, field: str, errors: FieldErrors) -> None:
    """Check a file's path in a volume, where names that start with `..` are reserved."""
    check_descending(path, field, errors)
    if path.startswith("..") and not path.startswith("../"):
        errors.append(invalid(field, path, "must not start with '..'"))


def check_file_mode(mode: int | None, field: str, errors: FieldErrors) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        errors.append(invalid(field, mode, FILE_MODE_ERROR))
