"""Removes old backups beside a new one: `alcove tenant backup --keep N`."""

from __future__ import annotations

from pathlib import Path

from alcove.cli.tenant_backup.places import S3

SUFFIX = ".backup"


def prune(place: str, keep: int) -> list[str]:
    """Removes the backups in the folder of `place` except the last `keep` by name, and returns what was removed. Only
    files that are named like it are backups. Raises CliError, OSError."""
    if place.startswith(S3):
        from alcove.cli.tenant_backup.s3 import listed, remove

        folder = place.rpartition("/")[0] + "/"
        removed = _old([each for each in listed(folder) if _is_backup(each, folder)], keep)
        for each in removed:
            remove(each)
        return removed
    files = [str(each) for each in Path(place).parent.glob(f"*{SUFFIX}") if each.is_file()]
    removed = _old(files, keep)
    for each in removed:
        Path(each).unlink(missing_ok=True)
    return removed


def _is_backup(place: str, folder: str) -> bool:
    return place.endswith(SUFFIX) and "/" not in place.removeprefix(folder)


def _old(places: list[str], keep: int) -> list[str]:
    return sorted(places)[:-keep]
