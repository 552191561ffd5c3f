"""ARCHITECTURE.md's walks through the code name functions that exist; the glossary stays short."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "alcove"
STEPS = sorted(set(re.findall(r"`([\w/]+\.(?:py|c|h):[\w.]+)`", (ROOT / "ARCHITECTURE.md").read_text())))
GLOSSARY_MAX = 30


def defined_in(path: Path) -> set[str]:
    """The classes, functions and methods that a Python file defines, or the functions of a C file."""
    if path.suffix != ".py":
        return set(re.findall(r"^[\w\s\*]+?\b(\w+)\(", path.read_text(), re.MULTILINE))
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{one.name}" for one in node.body if hasattr(one, "name")}
    return names


def test_there_are_walks() -> None:
    assert len(STEPS) > 25


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_a_walk_exists(step: str) -> None:
    path, _, name = step.partition(":")
    assert name in defined_in(SOURCE / path), f"{path} does not define {name}: change ARCHITECTURE.md along"


def test_the_glossary_holds_few_private_words() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert 0 < len(rows) <= GLOSSARY_MAX
    assert len(set(rows)) == len(rows)
