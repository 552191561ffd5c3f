"""Which tenants the files of a command line name."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from alcove.cli.errors import CliError
from alcove.cli.kubectl_manifests import Manifests, check, read, without_files

ONE = "kind: ConfigMap\nmetadata: {name: one, tenant: a}\n"
TWO = "kind: ConfigMap\nmetadata: {name: two, tenant: b}\n---\nkind: ConfigMap\nmetadata: {name: three}\n"
LIST = "kind: List\nitems: [{kind: ConfigMap, metadata: {name: four, tenant: a}}]\n"


def piped(text: str) -> Any:
    return SimpleNamespace(buffer=io.BytesIO(text.encode()))


def named(manifests: Manifests) -> dict[str, list[str]]:
    return {
        tenant: [each["metadata"]["name"] if "metadata" in each else each["kind"] for each in documents]
        for tenant, documents in manifests.by_tenant.items()
    }


def test_objects_are_found_by_the_tenant_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "two.yml").write_text(TWO)
    (tmp_path / "note.txt").write_text(ONE)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "list.json").write_text(LIST)
    line = f"apply -f {tmp_path}/one.yaml --filename={tmp_path}/two.yml"
    expected = {"a": ["one"], "b": ["two"], "": ["three"]}
    assert named(read("apply", line.split(), piped(""))) == expected
    assert named(read("apply", ["apply", f"-f{tmp_path}"], piped(""))) == expected
    assert named(read("apply", f"apply -R -f {tmp_path}".split(), piped("")))["a"] == ["List", "one"]
    from_stdin = read("delete", ["delete", "-f", "-"], piped(TWO))
    assert named(from_stdin) == {"b": ["two"], "": ["three"]} and from_stdin.stdin == TWO.encode()


@pytest.mark.parametrize(
    "line",
    [
        "logs -f pod",
        "get pods",
        "apply -f https://example.com/x.yaml",
        "apply -f /none",
        "apply -k .",
        "run x --image i -- tail -f -",
    ],
)
def test_what_are_no_files_are_not_read(line: str) -> None:
    assert read(line.split()[0], line.split(), None) == Manifests({})


@pytest.mark.parametrize(
    "text", ["{", "\t", "- 1\n- 2", "kind: x", "metadata: 3", "\x00", "kind: List\nitems: 3"]
)
def test_what_is_no_object_is_left_to_kubectl(text: str) -> None:
    assert not any(read("apply", ["apply", "-f", "-"], piped(text)).by_tenant)


def test_another_tenant_than_the_command_lines_is_refused() -> None:
    check(Manifests({"": [{}], "a": [{}]}), "a")
    with pytest.raises(CliError) as refused:
        check(Manifests({"b": [{}]}), "a")
    assert str(refused.value) == (
        'the tenant from the provided object "b" does not match the tenant "a". '
        "You must pass '--tenant=b' to perform this operation."
    )


def test_files_give_place_to_standard_input() -> None:
    line = "apply -f a.yaml --filename=b.yaml --filename c.yaml -fd.yaml -n x --wait"
    assert without_files(line.split()) == ["apply", "-n", "x", "--wait", "--filename=-"]
