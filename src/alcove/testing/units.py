"""A minimal parser of systemd's unit and environment files, to start a unit's command in tests."""

import re
import shlex
from pathlib import Path


def read_unit(unit: Path) -> dict[str, str]:
    """The last value of each setting, with continued lines joined."""
    text = unit.read_text().replace("\\\n", " ")
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


def expand(command: str, environment: dict[str, str]) -> list[str]:
    """As systemd does: `${NAME}` is one word, `$NAME` alone is split."""
    words: list[str] = []
    for word in shlex.split(command):
        if bare := re.fullmatch(r"\$(\w+)", word):
            words += shlex.split(environment.get(bare[1], ""))
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda name: environment[name[1]], word))
    return words


def read_environment(path: Path) -> dict[str, str]:
    """Variables of an environment file, as systemd reads it: quotes around a value are removed."""
    lines = path.read_text().splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name: value.strip('"') for name, _, value in pairs}
