"""The policy that a namespace's labels select."""

import pytest

from alcove.apiserver.admission.podsecurity import levels
from alcove.apiserver.admission.podsecurity.levels import LATEST, Level, Standard


def labels(**given: str) -> dict[str, str]:
    return {f"{levels.PREFIX}{key.replace('_', '-')}": value for key, value in given.items()}


def test_no_label_no_policy() -> None:
    assert levels.policy({"app": "web"}) == (levels.NO_POLICY, [])


def test_each_mode_has_its_own_level_and_version() -> None:
    given = labels(enforce="baseline", enforce_version="v1.30", audit="restricted", warn="restricted")
    policy, faults = levels.policy({**given, **labels(warn_version="latest")})
    assert not faults
    assert [str(each) for each in (policy.enforce, policy.audit, policy.warn)] == [
        "baseline:v1.30",
        "restricted:latest",
        "restricted:latest",
    ]


def test_warn_defaults_to_the_enforced_level() -> None:
    policy, _ = levels.policy(labels(enforce="restricted", enforce_version="v1.25"))
    assert policy.warn == Standard(Level.RESTRICTED, 25)
    policy, _ = levels.policy(labels(enforce="restricted", warn="baseline"))
    assert policy.warn == Standard(Level.BASELINE, LATEST)
    policy, _ = levels.policy(labels(enforce="restricted", enforce_version="v1.25", warn_version="v1.2"))
    assert policy.warn == Standard(Level.RESTRICTED, 2)


@pytest.mark.parametrize("text", ["strict", "Baseline", "", "baseline "])
def test_an_invalid_level_enforces_restricted_and_disables_audit_and_warn(text: str) -> None:
    policy, faults = levels.policy(labels(enforce=text, audit=text, warn=text))
    assert (policy.enforce.level, policy.audit.level, policy.warn.level) == (Level.RESTRICTED, 0, 0)
    assert len(faults) == 3
    assert faults[0].field == "metadata.labels[pod-security.kubernetes.io/enforce]"
    assert faults[0].body.endswith("must be one of privileged, baseline, restricted")


@pytest.mark.parametrize("text", ["1.30", "v1.030", "v2.1", "v1", "latest ", "v1.-1", "v1.9999999999999"])
def test_a_wrong_version_is_the_newest(text: str) -> None:
    policy, faults = levels.policy(labels(enforce="baseline", enforce_version=text))
    assert policy.enforce == Standard(Level.BASELINE, LATEST)
    assert [fault.body for fault in faults] == [f'Invalid value: "{text}": must be "latest" or "v1.x"']
