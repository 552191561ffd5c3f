"""Writes docs/reference from the code: fields of the kinds beyond stock Kubernetes, and flags of the commands; and from
the list of Kubernetes' conformance tests that pass. Writes docs/limits.md, too (see limits.py).

python docs/generate.py            writes the pages
python docs/generate.py --check    exits with 1 if they are not what it would write
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import limits
import typer.main

from alcove.api.schema import alcove_schemas, identity
from alcove.processes.main import app
from alcove.testing.conformance import Listed, Place, groups, read_list

DEFINITIONS = alcove_schemas.DEFINITIONS | identity.DEFINITIONS
FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent / "tests" / "conformance" / "results.txt"
MADE = "<!-- Made by docs/generate.py: change the code, not this page. -->\n\n"


def fields() -> str:
    """Every field of every kind, by its path."""
    text = (
        MADE
        + "# Fields\n\nKinds beyond stock Kubernetes; `metadata` is as everywhere, with `metadata.tenant` beside.\n"
    )
    for definition in DEFINITIONS.values():
        for served in definition.get("x-kubernetes-group-version-kind", ()):
            group = f"{served['group']}/" if served["group"] else ""
            text += f"\n## {served['kind']} `{group}{served['version']}`\n\n{definition['description']}\n\n"
            text += "| field | type | meaning |\n|---|---|---|\n"
            parts = definition["properties"]
            for name in ("spec", "status"):
                if name not in parts:
                    continue
                required = _resolve(parts[name]).get("required", ())
                for path, node in _walk(name, _resolve(parts[name])):
                    mark = " (required)" if path.removeprefix(f"{name}.") in required else ""
                    text += f"| `{path}` | {_type(node)}{mark} | {_meaning(node)} |\n"
    return text


def _resolve(node: dict[str, Any]) -> dict[str, Any]:
    reference = node.get("$ref", "")
    return DEFINITIONS.get(reference.removeprefix("#/$defs/"), node)


def _walk(path: str, node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        own = f"{path}.{name}"
        resolved = {**_resolve(child), **{key: value for key, value in child.items() if key == "description"}}
        yield own, resolved
        if resolved.get("type") == "object":
            yield from _walk(own, resolved)
        elif resolved.get("type") == "array":
            yield from _walk(f"{own}[]", _resolve(resolved["items"]))


def _type(node: dict[str, Any]) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "number or string"
    if node.get("type") == "array":
        inner = node["items"].get("type") or node["items"].get("$ref", "").rpartition(".")[2]
        return f"list of {inner}s"
    return str(node.get("type") or node.get("$ref", "").rpartition(".")[2])


def _meaning(node: dict[str, Any]) -> str:
    choices = "".join(f", `{each}`" for each in node.get("enum", ()))
    description = str(node.get("description", "")).replace("|", "\\|").replace("\n", " ")
    return f"{description} One of{choices[1:]}." if choices else description


def flags() -> str:
    """Every command with its arguments and options."""
    text = MADE + "# Commands\n\nEvery command has `--help`.\n"
    for name, command in _commands("alcove", typer.main.get_command(app)):
        shown = [
            each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"
        ]
        arguments = " ".join(
            each.name.upper() if each.required else f"[{each.name.upper()}]"
            for each in shown
            if each.param_type_name == "argument"
        )
        text += f"\n## `{f'{name} {arguments}'.strip()}`\n\n{_paragraph(command.help or '')}\n"
        options = [each for each in shown if each.param_type_name == "option"]
        if options:
            text += "\n| option | default | meaning |\n|---|---|---|\n"
            text += "".join(_row(each) for each in options)
    return text


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands that do something, in the order in which help shows them."""
    if command.hidden:
        return
    children = getattr(command, "commands", {})
    if not children:
        yield name, command
    for child in children.values():
        yield from _commands(f"{name} {child.name}", child)


def _paragraph(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _row(option: Any) -> str:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    default = option.default
    is_told = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    meaning = " ".join((option.help or "").split()).replace("|", "\\|")
    return f"| {names} | {f'`{default}`' if is_told else ''} | {meaning} |\n"


def conformance() -> str:
    """How many of Kubernetes' conformance tests pass where, and which pass nowhere or not in every tenant."""
    listed = read_list(RESULTS.read_text())
    text = (
        MADE
        + "# Conformance tests\n\nFrom `tests/conformance/results.txt`; see [how to run them](../conformance.md).\n"
    )
    text += "\n| group | in a tenant | only trusted or ring0 | of |\n|---|---|---|---|\n"
    text += "".join(_counts(group, tests) for group, tests in [*groups(listed), ("all", listed)])
    elsewhere = {
        name: places for name, places in sorted(listed.items()) if places and Place.TENANT not in places
    }
    text += "\n## Only in a tenant that ring0 trusts, or in ring0\n\n"
    text += "".join(f"- {name} ({', '.join(sorted(places))})\n" for name, places in elsewhere.items())
    if missing := [name for name, places in sorted(listed.items()) if not places]:
        text += "\n## Not seen to pass\n\n" + "".join(f"- {name}\n" for name in missing)
    return text


def _counts(group: str, tests: Listed) -> str:
    in_tenant = sum(Place.TENANT in places for places in tests.values())
    elsewhere = sum(bool(places) for places in tests.values()) - in_tenant
    return f"| {group} | {in_tenant} | {elsewhere} | {len(tests)} |\n"


def main() -> int:
    pages = {
        "reference/fields.md": fields(),
        "reference/commands.md": flags(),
        "reference/conformance.md": conformance(),
        "limits.md": limits.page(),
    }
    if "--check" in sys.argv[1:]:
        return int(any((FOLDER / name).read_text() != text for name, text in pages.items()))
    for name, text in pages.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
