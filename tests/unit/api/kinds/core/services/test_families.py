"""A service gets the IP families that its policy asks for, of those that its network has."""

import pytest

from alcove.api.kinds.core.services.families import families_of, family_errors
from alcove.api.objects import Object

V4, V6 = "IPv4", "IPv6"
PREFER, REQUIRE = {"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilyPolicy": "RequireDualStack"}
NOT_HERE = 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'
NOT_DUAL = (
    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
    "this cluster is not configured for dual-stack services"
)


@pytest.mark.parametrize(
    ("spec", "available", "expected", "errors"),
    [
        ({}, [V4], [V4], []),
        ({}, [V6, V4], [V6], []),
        (PREFER, [V4], [V4], []),
        (PREFER, [V6, V4], [V6, V4], []),
        ({**PREFER, "ipFamilies": [V4]}, [V6, V4], [V4, V6], []),
        (REQUIRE, [V4, V6], [V4, V6], []),
        (REQUIRE, [V4], [V4], [NOT_DUAL]),
        ({"ipFamilies": [V6]}, [V4], [V6], [NOT_HERE]),
        ({"clusterIPs": ["fd00::7"]}, [V4, V6], [V6], []),
        ({"clusterIPs": ["fd00::7"]}, [V4], [V6], [NOT_HERE]),
        ({"clusterIPs": ["None"], "selector": {"a": "b"}}, [V6], [V6], []),
        ({"clusterIPs": ["None"], "selector": {"a": "b"}, **REQUIRE}, [V6], [V6], [NOT_DUAL]),
        ({"clusterIPs": ["None"], "ipFamilies": [V4, V6], **REQUIRE}, [V4], [V4, V6], []),
    ],
)
def test_families(spec: Object, available: list[str], expected: list[str], errors: list[str]) -> None:
    families = families_of(spec, available)
    assert families == expected
    assert [str(each) for each in family_errors(spec, families, available)] == errors
