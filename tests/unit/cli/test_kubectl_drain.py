"""kubectl's words for draining a node."""

import pytest

from alcove.cli.drain import DrainOptions
from alcove.cli.errors import CliError
from alcove.cli.kubectl_drain import parse

NEVER = float("inf")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("drain n", DrainOptions(False, False, None, NEVER)),
        ("drain node/n --ignore-daemonsets", DrainOptions(False, False, None, NEVER)),
        ("drain --force n --delete-emptydir-data=true", DrainOptions(True, True, None, NEVER)),
        ("drain n --force=false --grace-period 5 --timeout=1m30s", DrainOptions(False, False, 5, 90.0)),
        ("--context c drain n --grace-period=-1 --timeout 500ms", DrainOptions(False, False, None, 0.5)),
        ("drain n --timeout=0", DrainOptions(False, False, None, NEVER)),
    ],
)
def test_options_are_kubectls(line: str, expected: DrainOptions) -> None:
    assert parse(line.split()) == ("n", expected)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("drain", "needs the name"),
        ("drain a b", "needs the name"),
        ("drain a --pod-selector=x=y", "--pod-selector is not supported"),
        ("drain a --timeout 5", "invalid --timeout"),
        ("drain a --grace-period x", "invalid --grace-period"),
    ],
)
def test_what_would_be_ignored_is_refused(line: str, message: str) -> None:
    with pytest.raises(CliError, match=message) as refused:
        parse(line.split())
    assert refused.value.code == 2
