"""Controllers of pods: defaults, selectors that fit their templates, what may change."""

import copy

import pytest

from alcove.api.errors import BadRequest
from alcove.api.kinds.apps import STRATEGIES
from alcove.api.kinds.apps.daemonsets import TEMPLATE_GENERATION
from alcove.api.objects import Object

NETWORK = "arktos.futurewei.com/network"
WORKLOADS = ("daemonsets", "deployments", "replicasets", "statefulsets")


def template(labels: Object | None = None, **pod: object) -> Object:
    container = {"name": "c", "image": "nginx"}
    meta = {"labels": {"app": "web"} if labels is None else labels}
    return {"metadata": meta, "spec": {"containers": [container], **pod}}


def workload(labels: Object | None = None, **spec: object) -> Object:
    given = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return {"metadata": {"name": "web", "namespace": "n", "labels": labels or {}}, "spec": given}


def messages(resource: str, obj: Object) -> list[str]:
    strategy, filled = STRATEGIES[resource], copy.deepcopy(obj)
    strategy.default(filled)
    return [str(error) for error in (*strategy.validate(filled), *strategy.validate_create(filled))]


@pytest.mark.parametrize("resource", WORKLOADS)
def test_a_plain_one_is_fine(resource: str) -> None:
    assert messages(resource, workload()) == []


MISMATCH = "`selector` does not match template `labels`"
SELECTORS: list[tuple[Object, list[str]]] = [
    (workload(template=template({"app": "db"})), [
        f'spec.template.metadata.labels: Invalid value: {{"app":"db"}}: {MISMATCH}']),
    (workload(template={"spec": template()["spec"]}), [
        f"spec.template.metadata.labels: Invalid value: null: {MISMATCH}"]),
    (workload(selector={}), ["spec.selector: Invalid value: {}: empty selector is invalid for WHOSE"]),
    (workload(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}), []),
]  # fmt: skip
WHOSE = {
    "daemonsets": "daemonset",
    "deployments": "deployment",
    "replicasets": "deployment",
    "statefulsets": "statefulset",
}


@pytest.mark.parametrize("resource", WORKLOADS)
@pytest.mark.parametrize(("obj", "expected"), SELECTORS)
def test_selector_fits_template(resource: str, obj: Object, expected: list[str]) -> None:
    assert messages(resource, obj) == [text.replace("WHOSE", WHOSE[resource]) for text in expected]


@pytest.mark.parametrize("resource", ["deployments", "replicasets", "statefulsets"])
def test_selector_is_required(resource: str) -> None:
    obj = workload()
    del obj["spec"]["selector"]
    assert messages(resource, obj) == [
        "spec.selector: Required value",
        f'spec.template.metadata.labels: Invalid value: {{"app":"web"}}: {MISMATCH}',
    ]


@pytest.mark.parametrize("resource", ["deployments", "replicasets"])
def test_selector_that_is_none(resource: str) -> None:
    errors = messages(resource, workload(selector={"matchLabels": {"app": "a b"}}))
    assert len(errors) == 2
    assert errors[1] == 'spec.selector: Invalid value: {"matchLabels":{"app":"a b"}}: invalid label selector'


NAMES = {
    "daemonsets": "DaemonSet",
    "deployments": "ReplicaSet",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
}


@pytest.mark.parametrize("resource", WORKLOADS)
def test_pods_run_without_end(resource: str) -> None:
    obj = workload(template=template(restartPolicy="Never", activeDeadlineSeconds=5))
    assert messages(resource, obj) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {NAMES[resource]} is not Supported",
    ]


@pytest.mark.parametrize("resource", WORKLOADS)
def test_template_is_checked(resource: str) -> None:
    obj = workload(template={"metadata": {"labels": {"app": "web"}}, "spec": {}})
    assert messages(resource, obj) == ["spec.template.spec.containers: Required value"]


@pytest.mark.parametrize("resource", ["daemonsets", "deployments", "replicasets"])
def test_selector_stays(resource: str) -> None:
    new, old = workload(selector={"matchLabels": {"app": "db"}}), workload()
    assert [str(error) for error in STRATEGIES[resource].validate_update(new, old)] == [
        'spec.selector: Invalid value: {"matchLabels":{"app":"db"}}: field is immutable'
    ]
    assert not STRATEGIES[resource].validate_update(workload(replicas=5), old)


def defaulted(resource: str, obj: Object) -> Object:
    filled = copy.deepcopy(obj)
    STRATEGIES[resource].default(filled)
    spec: Object = filled["spec"]
    return {field: value for field, value in spec.items() if field not in ("selector", "template")}


def test_defaults() -> None:
    assert defaulted("replicasets", workload()) == {"replicas": 1}
    assert defaulted("deployments", workload()) == {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    assert defaulted("deployments", workload(strategy={"type": "Recreate"}, replicas=0)) == {
        "replicas": 0,
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    }
    assert defaulted("daemonsets", workload()) == {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "revisionHistoryLimit": 10,
    }
    assert defaulted("statefulsets", workload()) == {
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "replicas": 1,
        "revisionHistoryLimit": 10,
    }
    on_delete = defaulted("statefulsets", workload(updateStrategy={"type": "OnDelete"}))
    assert on_delete["updateStrategy"] == {"type": "OnDelete"}


def test_template_is_filled_in() -> None:
    for resource in WORKLOADS:
        obj = workload()
        STRATEGIES[resource].default(obj)
        assert obj["spec"]["template"]["spec"]["restartPolicy"] == "Always"


def rolling(**fields: object) -> Object:
    return workload(strategy={"type": "RollingUpdate", "rollingUpdate": fields})


ROLLING = "spec.strategy.rollingUpdate"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
DEPLOYMENTS: list[tuple[Object, list[str]]] = [
    (workload(replicas=-1, minReadySeconds=-1, revisionHistoryLimit=-1), [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
        "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"]),
    (workload(minReadySeconds=600), [
        "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"]),
    (workload(strategy={"type": "Magic"}), [
        'spec.strategy: Unsupported value: {"type":"Magic"}: supported values: "Recreate", "RollingUpdate"']),
    (workload(strategy={"type": "Recreate", "rollingUpdate": {}}), [
        f"{ROLLING}: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
    (rolling(maxSurge=0, maxUnavailable=0), [
        f"{ROLLING}.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"]),
    (rolling(maxSurge="0%", maxUnavailable="0%"), [
        f'{ROLLING}.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
    (rolling(maxSurge="200%", maxUnavailable="101%"), [
        f'{ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
    (rolling(maxSurge="some", maxUnavailable=1), [f'{ROLLING}.maxSurge: Invalid value: "some": {PERCENT}']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), DEPLOYMENTS)
def test_deployment(obj: Object, expected: list[str]) -> None:
    assert messages("deployments", obj) == expected


SAME_NETWORK: list[tuple[Object, Object]] = [
    ({}, template()),
    ({}, template({"app": "web", NETWORK: "blue"})),
    ({NETWORK: "blue"}, template({"app": "web", NETWORK: "blue"})),
    ({NETWORK: "blue"}, template(network="blue")),
    ({NETWORK: "default"}, template()),
]
OTHER_NETWORK: list[tuple[Object, Object, str]] = [
    ({NETWORK: "blue"}, template({"app": "web", NETWORK: "red"}), "red"),
    ({NETWORK: "blue"}, template(network="red"), "red"),
    ({NETWORK: "blue"}, template(), "default"),
]


@pytest.mark.parametrize(("labels", "pods"), SAME_NETWORK)
def test_deployment_and_pods_in_one_network(labels: Object, pods: Object) -> None:
    assert messages("deployments", workload(labels, template=pods)) == []


@pytest.mark.parametrize(("labels", "pods", "joined"), OTHER_NETWORK)
def test_deployment_and_pods_in_two_networks(labels: Object, pods: Object, joined: str) -> None:
    with pytest.raises(BadRequest) as refused:
        messages("deployments", workload(labels, template=pods))
    assert f'is "blue" but its pods would join the network "{joined}"' in refused.value.message


def daemon_rolling(**fields: object) -> Object:
    return workload(updateStrategy={"type": "RollingUpdate", "rollingUpdate": fields})


DAEMON_ROLLING = "spec.updateStrategy.rollingUpdate"
DAEMON_SETS: list[tuple[Object, list[str]]] = [
    (workload(updateStrategy={"type": "OnDelete"}), []),
    (workload(updateStrategy={"type": "Magic"}), [
        'spec.updateStrategy: Unsupported value: {"type":"Magic"}: supported values: "RollingUpdate", "OnDelete"']),
    (daemon_rolling(maxSurge=1, maxUnavailable=0), []),
    (daemon_rolling(maxSurge=1), [
        f"{DAEMON_ROLLING}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"]),
    (daemon_rolling(maxUnavailable=0), [
        f"{DAEMON_ROLLING}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
    (daemon_rolling(maxUnavailable="101%"), [
        f'{DAEMON_ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), DAEMON_SETS)
def test_daemon_set(obj: Object, expected: list[str]) -> None:
    assert messages("daemonsets", obj) == expected


def test_daemon_set_counts_changes_of_its_template() -> None:
    strategy, old = STRATEGIES["daemonsets"], workload()
    strategy.prepare_create(old)
    assert old["metadata"]["annotations"] == {TEMPLATE_GENERATION: "1"}
    same = workload(minReadySeconds=1)
    same["metadata"]["annotations"] = {TEMPLATE_GENERATION: "99", "kept": "yes"}
    strategy.prepare_update(same, old)
    assert same["metadata"]["annotations"] == {TEMPLATE_GENERATION: "1", "kept": "yes"}
    changed = workload(template=template(hostNetwork=True))
    strategy.prepare_update(changed, old)
    assert changed["metadata"]["annotations"] == {TEMPLATE_GENERATION: "2"}


CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def mounting(volume: str) -> Object:
    mount = {"name": volume, "mountPath": "/data"}
    container = {"name": "c", "image": "nginx", "volumeMounts": [mount]}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}


STATEFUL_SETS: list[tuple[Object, list[str]]] = [
    (workload(serviceName="web", volumeClaimTemplates=[CLAIM], template=mounting("data")), []),
    (workload(template=template(hostname="Not.A.Label", subdomain="Neither")), []),
    (workload(template=mounting("data")), [
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"']),
    (workload(podManagementPolicy="Chaotic"), [
        "spec.podManagementPolicy: Invalid value: \"Chaotic\": must be 'OrderedReady' or 'Parallel'"]),
    (workload(updateStrategy={"type": "Magic"}), [
        "spec.updateStrategy: Invalid value: {\"type\":\"Magic\"}: must be 'RollingUpdate' or 'OnDelete'"]),
    (workload(updateStrategy={"type": "OnDelete", "rollingUpdate": {}}), [
        "spec.updateStrategy.rollingUpdate: Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'"]),
    (workload(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1, "maxUnavailable": 0}}), [
        "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"]),
    (workload(persistentVolumeClaimRetentionPolicy={"whenScaled": "Burn"}), [
        'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Burn": supported values: "Retain", "Delete"']),
    (workload(ordinals={"start": -1}), ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
    (workload(serviceName="a.b"), ['spec.serviceName: Invalid value: "a.b": must not contain dots']),
    (workload(volumeClaimTemplates=[{"metadata": {"name": "data"}}]), [
        "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), STATEFUL_SETS)
def test_stateful_set(obj: Object, expected: list[str]) -> None:
    assert messages("statefulsets", obj) == expected


FORBIDDEN = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def test_stateful_set_changes() -> None:
    update, old = STRATEGIES["statefulsets"].validate_update, workload()
    allowed = workload(
        replicas=3,
        ordinals={"start": 1},
        template=template(hostNetwork=True),
        updateStrategy={"type": "OnDelete"},
        revisionHistoryLimit=1,
        persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        minReadySeconds=1,
    )
    assert not update(allowed, old)
    assert not update(workload(volumeClaimTemplates=[]), old)
    for change in (
        {"serviceName": "x"},
        {"podManagementPolicy": "Parallel"},
        {"volumeClaimTemplates": [CLAIM]},
    ):
        assert [str(error) for error in update(workload(**change), old)] == [FORBIDDEN]


def test_stateful_set_names_are_labels() -> None:
    check = STRATEGIES["statefulsets"].validate_name
    assert check is not None
    assert list(check("a.b", False)) == ["must not contain dots"]


STATUSES: list[tuple[str, Object, Object, list[str]]] = [
    ("deployments", {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}, {}, []),
    ("deployments", {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}, {}, [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas"]),
    ("deployments", {"collisionCount": 1}, {"collisionCount": 2}, [
        "status.collisionCount: Invalid value: 1: cannot be decremented"]),
    ("deployments", {}, {"collisionCount": 2}, ["status.collisionCount: Invalid value: 0: cannot be decremented"]),
    ("replicasets", {"replicas": -1, "fullyLabeledReplicas": 0}, {}, [
        "status.replicas: Invalid value: -1: must be greater than or equal to 0",
        "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas"]),
    ("statefulsets", {"replicas": 1, "currentReplicas": 2}, {}, [
        "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas"]),
    ("statefulsets", {"replicas": 1, "availableReplicas": 1}, {}, [
        "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas"]),
    ("daemonsets", {"numberReady": -1}, {}, [
        "status.numberReady: Invalid value: -1: must be greater than or equal to 0"]),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "new", "old", "expected"), STATUSES)
def test_status(resource: str, new: Object, old: Object, expected: list[str]) -> None:
    errors = STRATEGIES[resource].validate_status({"status": new}, {"status": old})
    assert [str(error) for error in errors] == expected


def test_replicas_are_selectable() -> None:
    for resource in ("replicasets", "statefulsets"):
        assert STRATEGIES[resource].fields["status.replicas"]({"status": {"replicas": 3}}) == "3"
        assert STRATEGIES[resource].fields["status.replicas"]({}) == "0"


def test_controller_revision() -> None:
    assert not messages("controllerrevisions", {"data": {"spec": {}}, "revision": 1})
    assert messages("controllerrevisions", {"revision": -1}) == [
        "revision: Invalid value: -1: must be greater than or equal to 0",
        "data: Required value: data is mandatory",
    ]
    assert messages("controllerrevisions", {"data": [], "revision": 1}) == [
        "data: Required value: data must be a valid JSON object"
    ]
    update = STRATEGIES["controllerrevisions"].validate_update
    assert not update({"data": {"a": 1}, "revision": 2}, {"data": {"a": 1}, "revision": 1})
    [error] = update({"data": {"a": 2}}, {"data": {"a": 1}})
    assert str(error) == 'data: Invalid value: {"a":2}: field is immutable'
