"""Definitions of custom resources: what is filled in, refused, kept."""

import base64

import pytest

from alcove.api.kinds.apiextensions import STRATEGIES
from alcove.api.kinds.apiextensions.versions import field_steps
from alcove.api.objects import Object

STRATEGY = STRATEGIES["customresourcedefinitions"]
SCHEMA = {
    "openAPIV3Schema": {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"x": {"type": "string"}}},
            "spec": {
                "type": "object",
                "properties": {
                    "color": {"type": "string"},
                    "my-size": {"type": "integer"},
                    "list": {"type": "array"},
                },
            },
        },
    }
}


def version(name: str = "v1", storage: bool = True, **fields: object) -> Object:
    return {"name": name, "served": True, "storage": storage, "schema": SCHEMA, **fields}


def definition(*versions: Object, name: str = "crontabs.example.com", **spec: object) -> Object:
    given: Object = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "crontabs", "kind": "CronTab"},
        "versions": list(versions) or [version()],
        **spec,
    }
    return {"metadata": {"name": name}, "spec": given}


def messages(crd: Object) -> list[str]:
    STRATEGY.default(crd)
    return [str(error) for error in (*STRATEGY.validate(crd), *STRATEGY.validate_create(crd))]


def names(**fields: object) -> Object:
    return {"plural": "crontabs", "kind": "CronTab", **fields}


ONE_STORED = "must have exactly one version marked as storage version"
CASES: list[tuple[Object, list[str]]] = [
    (definition(), []),
    (definition(version(), version("v2", storage=False)), []),
    (definition(name="x.example.com"), [
        'metadata.name: Invalid value: "x.example.com": must be spec.names.plural+"."+spec.group']),
    (definition(name="crontabs.example", group="example"), [
        'spec.group: Invalid value: "example": should be a domain with at least one dot']),
    (definition(name="crontabs.", group=""), ["spec.group: Required value"]),
    (definition(scope=""), ["spec.scope: Required value"]),
    (definition(scope="Tenant"), ['spec.scope: Unsupported value: "Tenant": supported values: "Cluster", "Namespaced"']),
    (definition(version(schema=None)), [
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"]),
    (definition(version(schema={})), [
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"]),
    (definition(name="crontabs.example.com", names={"plural": "crontabs"}), [
        "spec.names.singular: Required value", "spec.names.kind: Required value", "spec.names.listKind: Required value"]),
    (definition(names=names(listKind="CronTab")), [
        'spec.names.listKind: Invalid value: "CronTab": kind and listKind may not be the same']),
    (definition(preserveUnknownFields=True), [
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"]),
    (definition(version(deprecationWarning="old")), [
        'spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions']),
    (definition(version(deprecated=True, deprecationWarning="")), [
        'spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string']),
    (definition(version(deprecated=True, deprecationWarning="é\n")), [
        'spec.versions[0].deprecationWarning: Invalid value: "é\\n": must only contain printable UTF-8 characters; non-printable character found at index 2']),
    (definition(version(subresources={"scale": {}})), [
        "spec.subresources.scale.specReplicasPath: Required value",
        "spec.subresources.scale.statusReplicasPath: Required value"]),
    (definition(version(subresources={"status": {}, "scale": {
        "specReplicasPath": "spec.n", "statusReplicasPath": ".spec.n", "labelSelectorPath": ".metadata.x"}})), [
        'spec.subresources.scale.specReplicasPath: Invalid value: "spec.n": must be a simple json path starting with .',
        'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.n": should be a json path under .status',
        'spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.x": should be a json path under either .spec or .status']),
    (definition(version(additionalPrinterColumns=[{}, {"name": "A", "type": "text", "format": "x", "jsonPath": "a"}])), [
        "spec.additionalPrinterColumns[0].name: Required value",
        "spec.additionalPrinterColumns[0].type: Required value: must be one of boolean,date,integer,number,string",
        "spec.additionalPrinterColumns[0].JSONPath: Required value",
        'spec.additionalPrinterColumns[1].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
        'spec.additionalPrinterColumns[1].format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password',
        'spec.additionalPrinterColumns[1].JSONPath: Invalid value: "a": must be a simple json path starting with .']),
    (definition(version(), version("v2", storage=False, subresources={"scale": {}})), [
        "spec.versions[1].subresources.scale.specReplicasPath: Required value",
        "spec.versions[1].subresources.scale.statusReplicasPath: Required value"]),
    (definition(version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec['my-size']"}])), []),
    (definition(version(selectableFields=[
        {"jsonPath": ".spec.color"}, {"jsonPath": ".spec['color']"}, {"jsonPath": ".spec.none"},
        {"jsonPath": ".metadata.x"}, {"jsonPath": ".spec.list"}, {}])), [
        "spec.selectableFields[1].jsonPath: Duplicate value: \".spec['color']\"",
        'spec.selectableFields[2].jsonPath: Invalid value: ".spec.none": is an invalid path: does not refer to a valid field',
        'spec.selectableFields[3].jsonPath: Invalid value: ".metadata.x": must not point to fields in metadata',
        'spec.selectableFields[4].jsonPath: Invalid value: ".spec.list": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.',
        "spec.selectableFields[5].jsonPath: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("crd", "expected"), CASES)
def test_validate(crd: Object, expected: list[str]) -> None:
    assert messages(crd) == expected


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([version(storage=False)], [ONE_STORED]),
        ([version(), version("v2")], [ONE_STORED]),
        ([version(), version(storage=False)], ["must contain unique version names"]),
    ],
)
def test_versions(versions: list[Object], expected: list[str]) -> None:
    errors = STRATEGY.validate(definition(*versions, names=names(singular="c", listKind="L")))
    assert [error.field for error in errors] == ["spec.versions"] * len(expected)
    assert [error.body.rpartition(": ")[2] for error in errors] == expected


def test_names_are_dns_labels() -> None:
    crd = definition(
        name="Cron_Tabs.example.com",
        names={"plural": "Cron_Tabs", "kind": "Cron_Tab", "shortNames": ["c t"], "categories": ["All"]},
    )
    assert [error.split(": ")[0] for error in messages(crd)] == [
        "spec.names.plural",
        "spec.names.singular",
        "spec.names.kind",
        "spec.names.listKind",
        "spec.names.shortNames[0]",
        "spec.names.categories[0]",
    ]


def test_defaults() -> None:
    crd = definition()
    STRATEGY.default(crd)
    assert crd["spec"]["names"]["singular"] == "crontab"
    assert crd["spec"]["names"]["listKind"] == "CronTabList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}


CLIENT = "spec.conversion.webhookClientConfig"
VERSIONS = "spec.conversion.conversionReviewVersions"
URL = {"url": "https://a.example.com"}
CONVERSIONS: list[tuple[Object, list[str]]] = [
    ({"strategy": "Webhook", "webhook": {"clientConfig": URL, "conversionReviewVersions": ["v1"]}}, []),
    ({"strategy": "Magic"}, [
        'spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"']),
    ({"strategy": "Webhook"}, [
        f"{CLIENT}: Required value: required when strategy is set to Webhook", f"{VERSIONS}: Required value"]),
    ({"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v2", "v2"]}}, [
        f"{CLIENT}: Required value: exactly one of url or service is required",
        f'{VERSIONS}[1]: Invalid value: "v2": duplicate version',
        f'{VERSIONS}: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1']),
    ({"strategy": "None", "webhook": {"clientConfig": URL, "conversionReviewVersions": ["v1"]}}, [
        f"{CLIENT}: Forbidden: should not be set when strategy is not set to Webhook",
        f"{VERSIONS}: Forbidden: should not be set when strategy is not set to Webhook"]),
]  # fmt: skip


@pytest.mark.parametrize(("conversion", "expected"), CONVERSIONS)
def test_conversion(conversion: Object, expected: list[str]) -> None:
    assert messages(definition(conversion=conversion)) == expected


APPROVAL = "metadata.annotations[api-approved.kubernetes.io]"
SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


def in_community_group(approval: str) -> Object:
    crd = definition(name="crontabs.x.k8s.io", group="x.k8s.io")
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    return crd


def test_community_groups_need_approval() -> None:
    assert messages(in_community_group("")) == [
        f'{APPROVAL}: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", {SEE}'
    ]
    assert messages(in_community_group("sure")) == [
        f'{APPROVAL}: Invalid value: "sure": protected groups must have approval annotation '
        f'"api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", {SEE}'
    ]
    assert not messages(in_community_group("unapproved, experimental"))
    assert not messages(in_community_group("https://example.com/pull/1"))


def test_approval_may_stay_missing_but_not_go() -> None:
    missing, given = in_community_group(""), in_community_group("unapproved")
    assert not STRATEGY.validate_update(missing, missing)
    [error] = STRATEGY.validate_update(missing, given)
    assert error.field == APPROVAL


def established(crd: Object, *stored: str) -> Object:
    status = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": list(stored)}
    return {**crd, "status": status}


def test_what_stays() -> None:
    old = established(definition(version()), "v1")
    new = definition(
        version("v2"), group="other.com", scope="Cluster", names=names(kind="Other", plural="others")
    )
    assert [str(error) for error in STRATEGY.validate_update(new, old)] == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Other": field is immutable',
        'spec.group: Invalid value: "other.com": field is immutable',
        'spec.names.plural: Invalid value: "others": field is immutable',
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, '
        "and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes "
        "v1 from status.storedVersions",
    ]
    before = definition(version())
    assert not STRATEGY.validate_update(definition(version(), scope="Cluster"), before)


def test_a_ca_must_be_readable_once_objects_are_served() -> None:
    bad = base64.b64encode(b"no").decode()
    webhook = {"clientConfig": {**URL, "caBundle": bad}, "conversionReviewVersions": ["v1"]}
    new = definition(conversion={"strategy": "Webhook", "webhook": webhook})
    [error] = STRATEGY.validate_update(new, established(definition()))
    assert error.field == f"{CLIENT}.caBundle"
    assert not STRATEGY.validate_update(new, established(new))
    assert not STRATEGY.validate_update(new, definition())


def test_stored_versions_are_recorded() -> None:
    crd = definition(version())
    STRATEGY.prepare_create(crd)
    assert crd["status"] == {"storedVersions": ["v1"]}
    kept = crd["status"]
    new = {**definition(version(storage=False), version("v2")), "status": kept}
    STRATEGY.prepare_update(new, crd)
    assert new["status"] == {"storedVersions": ["v1", "v2"]}
    assert kept == {"storedVersions": ["v1"]}


def test_status() -> None:
    [error] = STRATEGY.validate_status({"status": {"acceptedNames": {"plural": "A b"}}}, {})
    assert error.field == "status.acceptedNames.plural"


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (".spec.color", ("spec", "color")),
        (".spec['a.b']", ("spec", "a.b")),
        (r".spec['it\'s']", ("spec", "it's")),
        ("spec", ()),
        (".spec[0]", ()),
        ("", ()),
    ],
)
def test_field_steps(text: str, steps: tuple[str, ...]) -> None:
    assert field_steps(text) == steps
