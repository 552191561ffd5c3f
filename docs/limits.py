"""Writes docs/limits.md: every pool and every bound on what tenants send.

Its text is in limits.md.in, where each value is the path of the constant that holds it, so that no value is typed by
hand:

    {apiserver.flow.WEIGHT_MAX}                     a constant of a module
    {apiserver.flow.FlowLimits.seats}               the default of a struct's field
    {apiserver.outbound.webhooks.POOL.total_max}    a field of a constant
    {dns.cache.ReplyCache(entries_max)}             the default of a parameter
    {bpf.services}                                  the size of a BPF map, from the C sources

Constants that bound nothing for tenants are in `limits_internal.py`. `missing` and `unknown` are for
tests/unit/test_limits.py.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec
from limits_internal import INTERNAL

SOURCE = Path(__file__).parents[1] / "src" / "alcove"
TEMPLATE = Path(__file__).parent / "limits.md.in"
PACKAGES = (
    *(
        "agent",
        "api",
        "apiserver",
        "controllers",
        "dataplane",
        "dns",
        "http",
        "network",
        "scheduler",
        "store",
    ),
    "vpc",
)
"""Those that handle what tenants send. Field validations of `api/kinds` are Kubernetes' own, and left out."""

_NAME = re.compile(r"\{(\w+(?:\.\w+)+(?:\(\w+\))?)\}")
_MAP = re.compile(r"struct \{[^{}]*?__uint\(max_entries, ([^)]+)\);[^{}]*?\} (\w+) SEC\(\"\.maps\"\)")
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
_TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def page() -> str:
    return _NAME.sub(lambda match: shown(match[1], value_of(match[1])), TEMPLATE.read_text())


# Values


class UnknownConstant(LookupError):
    pass


def value_of(path: str) -> Any:
    """Raises UnknownConstant."""
    name, _, parameter = path.rstrip(")").partition("(")
    try:
        if name.startswith("bpf."):
            return map_sizes()[name.removeprefix("bpf.")]
        value = _found(name)
        return inspect.signature(value).parameters[parameter].default if parameter else value
    except (AttributeError, ImportError, KeyError) as error:
        raise UnknownConstant(path) from error


def _found(path: str) -> Any:
    parts = path.split(".")
    depth = next((count for count in range(len(parts), 0, -1) if _is_module(parts[:count])), 0)
    value: Any = importlib.import_module(".".join(("alcove", *parts[:depth])))
    for part in parts[depth:]:
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            value = {field.name: field.default for field in msgspec.structs.fields(value)}[part]
        else:
            value = getattr(value, part)
    return value


def _is_module(parts: list[str]) -> bool:
    path = SOURCE.joinpath(*parts)
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def map_sizes() -> dict[str, int]:
    """The number of entries of each BPF map, by the map's name; of a ring buffer, its bytes."""
    text = "".join(path.read_text() for path in sorted((SOURCE / "bpf").rglob("*.[ch]")))
    defined = dict(re.findall(r"^#define (\w+) (\d+)\b", text, re.MULTILINE))
    return {name: _product(defined.get(size, size)) for size, name in _MAP.findall(text)}


def _product(text: str) -> int:
    product = 1
    for factor in text.split("*"):
        product *= int(factor)
    return product


def shown(path: str, value: Any) -> str:
    """A value as the page shows it. Its unit is in the constant's name."""
    name = path.rpartition(".")[2].upper()
    if isinstance(value, range):
        return f"{value.start} to {value.stop - 1} ({len(value):,})"
    if isinstance(value, tuple):
        low, high = value
        return f"{low} to {high} ({high - low + 1:,})"
    if isinstance(value, IPv4Network):
        return f"{value} ({value.num_addresses:,} addresses)"
    if "SHARE_" in name:
        return f"{value:.0%}"
    if "MICROSECONDS" in name:
        return f"{value:,} µs"
    if "SECONDS" in name:
        return f"{value * 1_000:g} ms" if value < 1 else _in_units(value, _TIMES)
    return _in_units(value, _SIZES) if "BYTES" in name else f"{int(value):,}"


def _in_units(value: float, units: tuple[tuple[int, str], ...]) -> str:
    """In the largest unit of which it is a multiple."""
    size, name = next((unit for unit in units if value >= unit[0] and not value % unit[0]), units[-1])
    return f"{value / size:,g} {name}"


# What must be on the page


def on_page() -> list[str]:
    return _NAME.findall(TEMPLATE.read_text())


def internal() -> list[str]:
    return [name for names in INTERNAL.values() for name in names]


def missing() -> list[str]:
    """Bounds of the code that are neither on the page nor internal."""
    return sorted(bounds() - {*on_page(), *internal()})


def unknown() -> list[str]:
    """Names on the page or in INTERNAL that no constant has."""
    return [name for name in (*on_page(), *internal()) if not _exists(name)]


def _exists(name: str) -> bool:
    try:
        value_of(name)
    except UnknownConstant:
        return False
    return True


def bounds() -> set[str]:
    """Constants of modules with `_MAX` or `_MOST` in their names, defaults of structs' fields with `_max` in theirs,
    and all BPF maps."""
    files = (path for package in PACKAGES for path in sorted((SOURCE / package).rglob("*.py")))
    kinds = SOURCE / "api" / "kinds"
    found = {name for path in files if not path.is_relative_to(kinds) for name in bounds_in(path)}
    return found | {f"bpf.{name}" for name in map_sizes()}


def bounds_in(path: Path) -> Iterator[str]:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            names = (name for each in node.body for name in _assigned(each) if "_max" in name)
            yield from (f"{module}.{node.name}.{name}" for name in names)
        else:
            names = (name for name in _assigned(node) if "_MAX" in name or "_MOST" in name)
            yield from (f"{module}.{name}" for name in names)


def _assigned(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Assign():
            targets = node.targets
        case ast.AnnAssign(value=ast.expr()):
            targets = [node.target]
        case _:
            targets = []
    for target in targets:
        yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
