"""Names of CRDs: which CRD gets a name, and the conditions of the others."""

from typing import Any

import pytest

from alcove.api import registry
from alcove.api.objects import Object
from alcove.apiserver.crds.acceptance import accept, is_established

NOW = "2026-01-02T03:04:05Z"
STOCK = registry.load().all()


def definition(
    plural: str = "widgets", kind: str = "Widget", group: str = "example.com", **names: Any
) -> Object:
    requested_names = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
        **names,
    }
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": requested_names,
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
        "status": {"storedVersions": ["v1"]},
    }


def accepted(crd: Object, *others: Object) -> Object:
    return {**crd, "status": accept(crd, others, STOCK, NOW)}


def conditions(crd: Object) -> dict[str, tuple[str, str, str]]:
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in crd["status"]["conditions"]
    }


def test_a_crd_without_rivals_is_established_at_once() -> None:
    crd = accepted(definition(shortNames=["wd"], categories=["all"]))
    assert conditions(crd) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
    assert crd["status"]["storedVersions"] == ["v1"]
    assert {each["lastTransitionTime"] for each in crd["status"]["conditions"]} == {NOW}


@pytest.mark.parametrize(
    ("rival", "reason", "message"),
    [
        (
            definition("gadgets", "Gadget", singular="widget"),
            "SingularConflict",
            '"widget" is already in use',
        ),
        (
            definition("gadgets", "Gadget", shortNames=["wd", "x"]),
            "ShortNamesConflict",
            '"wd" is already in use',
        ),
        (
            definition("gadgets", "Gadget", shortNames=["wd", "wg"]),
            "ShortNamesConflict",
            '["wd" is already in use, "wg" is already in use]',
        ),
        (
            definition("gadgets", "Widget", singular="gadget", listKind="GadgetList"),
            "KindConflict",
            '"Widget" is already in use',
        ),
        (
            definition("gadgets", "Gadget", listKind="WidgetList"),
            "ListKindConflict",
            '"WidgetList" is already in use',
        ),
        (
            definition("gadgets", "Gadget", shortNames=["widgets"]),
            "PluralConflict",
            '"widgets" is already in use',
        ),
    ],
)
def test_conflicts(rival: Object, reason: str, message: str) -> None:
    crd = accepted(definition(shortNames=["wd", "wg"]), accepted(rival))
    assert conditions(crd) == {
        "NamesAccepted": ("False", reason, message),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert not is_established(crd)


def test_other_groups_are_no_rivals() -> None:
    assert is_established(accepted(definition(), accepted(definition(group="other.com"))))


def test_stock_kinds_keep_their_names() -> None:
    crd = accepted(definition("networks", "Network", "arktos.futurewei.com"))
    assert conditions(crd)["NamesAccepted"][0] == "False"
    assert is_established(accepted(definition("fleets", "Fleet", "apps")))


def test_accepted_names_stay_accepted() -> None:
    crd = accepted(definition(shortNames=["wd"]))
    late = accepted(definition("gadgets", "Gadget", shortNames=["wd"]), crd)
    assert conditions(late)["NamesAccepted"][1] == "ShortNamesConflict"
    assert accepted(crd, late)["status"] == crd["status"]


def test_an_established_crd_that_asks_for_a_taken_name_stays_established() -> None:
    crd = accepted(definition())
    crd["spec"]["names"]["shortNames"] = ["gg"]
    crd = accepted(crd, accepted(definition("gadgets", "Gadget", shortNames=["gg"])))
    assert conditions(crd)["NamesAccepted"][0] == "False"
    assert is_established(crd)
    assert "shortNames" not in crd["status"]["acceptedNames"]


def test_times_change_with_the_status_only() -> None:
    crd = accepted(definition())
    status = accept(crd, (), STOCK, "2027-01-01T00:00:00Z")
    assert {each["lastTransitionTime"] for each in status["conditions"]} == {NOW}
    lost = accept(definition(), [accepted(definition("gadgets", "Widget"))], STOCK, NOW)
    found = accept({**definition(), "status": lost}, (), STOCK, "2027-01-01T00:00:00Z")
    assert {each["lastTransitionTime"] for each in found["conditions"]} == {"2027-01-01T00:00:00Z"}


def test_an_unreadable_ca_keeps_a_crd_from_being_served() -> None:
    crd = definition()
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "AAAA"}}}
    assert conditions(accepted(crd))["Established"] == (
        "False",
        "InvalidCABundle",
        "The conversion webhook CABundle is invalid",
    )


def test_the_approval_annotation_decides_for_kubernetes_groups() -> None:
    crd = definition(group="gateway.networking.k8s.io")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/pr/1"}
    assert conditions(accepted(crd))["KubernetesAPIApprovalPolicyConformant"] == (
        "True",
        "ApprovedAnnotation",
        "approved in https://example.com/pr/1",
    )
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental"}
    assert conditions(accepted(crd))["KubernetesAPIApprovalPolicyConformant"][:2] == (
        "False",
        "UnapprovedAnnotation",
    )
