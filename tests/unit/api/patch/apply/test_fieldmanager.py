"""The field manager's name of a writer."""

import pytest

from alcove.api.patch.apply import fieldmanager


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "expected"),
    [
        ("me", "kubectl/v1.32", "me"),
        ("", "kubectl/v1.32.0 (linux/amd64)", "kubectl"),
        ("", "kube-controller-manager/v1 (linux) kubernetes/1234/x", "kube-controller-manager"),
        ("", "a\x07b\tc/1", "abc"),
        ("", "", ""),
        ("", "x" * 200, "x" * 128),
        ("", "é" * 100, "é" * 64),
        ("", "a" + "é" * 100, "a" + "é" * 63),
    ],
)
def test_name(field_manager: str, user_agent: str, expected: str) -> None:
    assert fieldmanager.name(field_manager, user_agent) == expected


def test_validate() -> None:
    assert fieldmanager.validate("kubectl client-side apply é") == []
    assert [str(error) for error in fieldmanager.validate("é\n")] == [
        'fieldManager: Invalid value: "é\\n": invalid character U+000A (at position 2)'
    ]
    assert [str(error) for error in fieldmanager.validate("é" * 65)] == [
        "fieldManager: Too long: may not be more than 128 bytes"
    ]
