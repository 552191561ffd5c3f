"""Jobs: defaults, generated selectors, policies, what may change, valid statuses."""

import copy

import pytest

from alcove.api.kinds.batch import STRATEGIES
from alcove.api.objects import Object

JOBS = STRATEGIES["jobs"]


def template(**pod: object) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never", **pod}}


def job(**spec: object) -> Object:
    return {
        "metadata": {"name": "work", "namespace": "n", "uid": "u-1"},
        "spec": {"template": template(), **copy.deepcopy(spec)},
    }


def created(obj: Object) -> Object:
    JOBS.default(obj)
    JOBS.prepare_create(obj)
    return obj


def messages(obj: Object) -> list[str]:
    return [str(error) for error in JOBS.validate(created(obj))]


def test_defaults() -> None:
    obj = job()
    obj["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    JOBS.default(obj)
    spec = {field: value for field, value in obj["spec"].items() if field != "template"}
    assert spec == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
    }
    assert obj["metadata"]["labels"] == {"app": "x"}
    assert obj["metadata"]["labels"] is not obj["spec"]["template"]["metadata"]["labels"]


def test_defaults_depend_on_each_other() -> None:
    queue = job(parallelism=3)
    JOBS.default(queue)
    assert "completions" not in queue["spec"]
    pattern = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    indexed = job(backoffLimitPerIndex=1, completions=2, podFailurePolicy={"rules": [pattern]})
    JOBS.default(indexed)
    assert indexed["spec"]["backoffLimit"] == 2147483647
    assert indexed["spec"]["podReplacementPolicy"] == "Failed"
    assert indexed["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_selector_is_made_of_the_uid() -> None:
    obj = created(job())
    assert obj["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    assert obj["spec"]["template"]["metadata"]["labels"] == {
        "controller-uid": "u-1",
        "batch.kubernetes.io/controller-uid": "u-1",
        "job-name": "work",
        "batch.kubernetes.io/job-name": "work",
    }
    assert messages(job()) == []


def test_a_manual_selector_is_left_alone() -> None:
    manual = job(manualSelector=True, selector={"matchLabels": {"a": "b"}})
    manual["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    assert messages(manual) == []
    assert manual["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert messages(job(manualSelector=True)) == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]


def test_made_labels_cannot_be_forged() -> None:
    forged = job(selector={"matchLabels": {"other": "one"}})
    forged["spec"]["template"]["metadata"] = {"labels": {"controller-uid": "u-2", "other": "one"}}
    errors = messages(forged)
    assert errors[0].startswith("spec.template.metadata.labels[controller-uid]: Invalid value: {")
    assert errors[0].endswith("must be 'u-1'")
    assert errors[1].endswith("`selector` not auto-generated")
    assert len(errors) == 2


def indexed(**spec: object) -> Object:
    return job(completionMode="Indexed", **{"completions": 4, **spec})


NEVER_ALWAYS = 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'
SPECS: list[tuple[Object, list[str]]] = [
    (job(template=template(restartPolicy="OnFailure")), []),
    (job(template=template(restartPolicy="Always")), [NEVER_ALWAYS]),
    (job(template={"spec": {"containers": [{"name": "c", "image": "i"}]}}), [NEVER_ALWAYS]),
    (job(parallelism=-1, completions=-1, backoffLimit=-1, activeDeadlineSeconds=-1, ttlSecondsAfterFinished=-1), [
        f"spec.{field}: Invalid value: -1: must be greater than or equal to 0" for field in (
            "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")]),
    (job(completionMode="Odd"), [
        'spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"']),
    (job(completionMode="Indexed", parallelism=1), ["spec.completions: Required value: when completion mode is Indexed"]),
    (indexed(parallelism=100_001), [
        "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed"]),
    (indexed(backoffLimitPerIndex=1, maxFailedIndexes=5), [
        "spec.maxFailedIndexes: Invalid value: 5: must be less than or equal to completions"]),
    (indexed(maxFailedIndexes=1), ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"]),
    (indexed(completions=100_001, backoffLimitPerIndex=1, parallelism=10_001), [
        "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
        "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"]),
    (job(backoffLimitPerIndex=1), ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"]),
    (job(successPolicy={"rules": []}), [
        'spec.successPolicy: Invalid value: {"rules":[]}: requires indexed completion mode']),
    (job(managedBy="kueue"), [
        'spec.managedBy: Invalid value: "kueue": must be a domain-prefixed path (such as "acme.io/foo")']),
    (job(managedBy="acme.io/" + "x" * 56), ["spec.managedBy: Too long: may not be more than 63 bytes"]),
    (job(podReplacementPolicy="Never"), [
        'spec.podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"']),
    (job(template={"spec": {"restartPolicy": "Never"}}), ["spec.template.spec.containers: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), SPECS)
def test_spec(obj: Object, expected: list[str]) -> None:
    assert messages(obj) == expected


def test_indexed_pods_need_a_host_name() -> None:
    long = indexed()
    long["metadata"]["name"] = "x" * 62
    assert messages(long) == [
        f'metadata.name: Invalid value: "{"x" * 62}": will not able to create pod with invalid DNS label: {"x" * 62}-3'
    ]


def failing(*rules: Object, **spec: object) -> Object:
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


RULE = "spec.podFailurePolicy.rules[0]"
CODES = {"operator": "In", "values": [1, 2]}
FAILURES: list[tuple[Object, list[str]]] = [
    (failing({"action": "FailJob", "onExitCodes": CODES}), []),
    (failing({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}), []),
    (failing({"onExitCodes": CODES}), [
        f'{RULE}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]']),
    (failing({"action": "Panic", "onExitCodes": CODES}), [
        f'{RULE}.action: Unsupported value: "Panic": supported values: "Count", "FailIndex", "FailJob", "Ignore"']),
    (failing({"action": "FailIndex", "onExitCodes": CODES}), [
        f'{RULE}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set']),
    (failing({"action": "Count", "onExitCodes": {"operator": "About", "values": list(range(256))}}), [
        f'{RULE}.onExitCodes.operator: Unsupported value: "About": supported values: "In", "NotIn"',
        f"{RULE}.onExitCodes.values: Too many: 256: must have at most 255 items"]),
    (failing({"action": "Count", "onPodConditions": [{"type": "A"}] * 21}), [
        f"{RULE}.onPodConditions: Too many: 21: must have at most 20 items"]),
    (failing({"action": "Count"}), [
        f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"]),
    (failing({"action": "Count", "onExitCodes": CODES, "onPodConditions": [{"type": "A"}]}), [
        f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"]),
    (failing({"action": "Count", "onExitCodes": {"values": []}}), [
        f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
        f"{RULE}.onExitCodes.values: Invalid value: []: at least one value is required"]),
    (failing({"action": "Count", "onExitCodes": {"operator": "In", "values": [0, 2, 2, 1], "containerName": "x"}}), [
        f'{RULE}.onExitCodes.containerName: Invalid value: "x": must be one of the container or initContainer names in the pod template',
        f"{RULE}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        f"{RULE}.onExitCodes.values[2]: Duplicate value: 2",
        f"{RULE}.onExitCodes.values: Invalid value: [0,2,2,1]: must be ordered"]),
    (failing({"action": "Count", "onPodConditions": [{"type": "A", "status": "Maybe"}]}), [
        f'{RULE}.onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"']),
    (failing(*[{"action": "Count", "onExitCodes": CODES}] * 21), [
        "spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"]),
    (failing({"action": "Count", "onExitCodes": CODES}, template=template(restartPolicy="OnFailure")), [
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified']),
    (failing({"action": "Count", "onExitCodes": CODES}, podReplacementPolicy="TerminatingOrFailed"), [
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), FAILURES)
def test_failure_policy(obj: Object, expected: list[str]) -> None:
    assert messages(obj) == expected


def succeeding(*rules: Object) -> Object:
    return indexed(successPolicy={"rules": list(rules)})


WON = "spec.successPolicy.rules[0]"
SUCCESSES: list[tuple[Object, list[str]]] = [
    (succeeding({"succeededIndexes": "0-2", "succeededCount": 3}), []),
    (succeeding(), [
        "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified"]),
    (succeeding(*[{"succeededCount": 1}] * 21), ["spec.successPolicy.rules: Too many: 21: must have at most 20 items"]),
    (succeeding({}), [f"{WON}: Required value: at least one of succeededCount or succeededIndexes must be specified"]),
    (succeeding({"succeededCount": 5}), [
        f"{WON}.succeededCount: Invalid value: 5: must be less than or equal to 4 (the number of specified completions)"]),
    (succeeding({"succeededCount": 3, "succeededIndexes": "0,2"}), [
        f"{WON}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)"]),
    (succeeding({"succeededIndexes": "2-1"}), [
        f'{WON}.succeededIndexes: Invalid value: "2-1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1']),
    (succeeding({"succeededIndexes": "0-4"}), [
        f'{WON}.succeededIndexes: Invalid value: "0-4": error parsing succeededIndexes: too large index: "4"']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), SUCCESSES)
def test_success_policy(obj: Object, expected: list[str]) -> None:
    assert messages(obj) == expected


def changes(new: Object, old: Object) -> list[str]:
    return [str(error) for error in JOBS.validate_update(created(new), created(old))]


def test_what_may_change() -> None:
    assert changes(job(parallelism=5, completions=1, suspend=True, backoffLimit=9), job()) == []
    assert changes(job(completions=2), job()) == ["spec.completions: Invalid value: 2: field is immutable"]
    assert changes(indexed(completions=8, parallelism=8), indexed(parallelism=4)) == []
    assert changes(indexed(completions=8, parallelism=4), indexed(parallelism=4)) == [
        "spec.completions: Invalid value: 8: can only be modified in tandem with spec.parallelism"
    ]
    assert changes(job(managedBy="a.io/b"), job()) == [
        'spec.managedBy: Invalid value: "a.io/b": field is immutable'
    ]
    [error] = changes(job(template=template(hostNetwork=True)), job())
    assert error.startswith("spec.template: Invalid value: {")


def suspended(**status: object) -> Object:
    return {**job(suspend=True), "status": status}


def test_a_suspended_job_may_be_placed_otherwise() -> None:
    elsewhere = template(
        nodeSelector={"zone": "b"}, affinity={"nodeAffinity": {}}, tolerations=[{"operator": "Exists"}]
    )
    elsewhere["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    new = job(suspend=True, template=elsewhere)
    assert changes(new, suspended()) == []
    assert (
        changes(new, suspended(startTime="2024-01-01T00:00:00Z", conditions=[condition("Suspended")])) == []
    )
    for status in ({"startTime": "2024-01-01T00:00:00Z"}, {"active": 1}):
        [error] = changes(copy.deepcopy(new), suspended(**status))
        assert error.startswith("spec.template: Invalid value: {")
    [error] = changes(job(suspend=True, template=template(hostNetwork=True)), suspended())
    assert error.startswith("spec.template.spec: Invalid value: {")


def condition(kind: str, status: str = "True") -> Object:
    return {"type": kind, "status": status}


START, END = "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"
COMPLETE: Object = {
    "startTime": START,
    "completionTime": END,
    "succeeded": 1,
    "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
}
FAILED = {"startTime": START, "conditions": [condition("FailureTarget"), condition("Failed")]}
COND = "status.conditions: Invalid value:"
STATUSES: list[tuple[Object, Object, Object, list[str]]] = [
    ({}, {"startTime": START, "active": 1, "ready": 1}, {}, []),
    ({}, COMPLETE, {"startTime": START}, []),
    ({}, FAILED, {"startTime": START}, []),
    ({}, {"active": -1}, {}, [
        "status.active: Invalid value: -1: must be greater than or equal to 0",
        "status.ready: Invalid value: 0: cannot set more ready pods than active"]),
    ({}, {"active": 1, "ready": 2}, {}, ["status.ready: Invalid value: 2: cannot set more ready pods than active"]),
    ({}, {**COMPLETE, "completionTime": None}, {}, [
        "status.completionTime: Required value: completionTime is required for Complete jobs"]),
    ({}, {"completionTime": END}, {}, [
        f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no Complete=True condition']),
    ({}, {**COMPLETE, "startTime": END, "completionTime": START}, {}, [
        f'status.completionTime: Invalid value: "{START}": must be equal to or after `startTime`']),
    ({}, {**COMPLETE, "conditions": [condition("Complete")]}, {}, [
        f"{COND} cannot set Complete=True condition without the SuccessCriteriaMet=true condition"]),
    ({}, {**COMPLETE, "conditions": [*COMPLETE["conditions"], condition("Failed"), condition("FailureTarget")]}, {}, [
        f"{COND} cannot set Complete=True and Failed=true conditions",
        f"{COND} cannot set Complete=True and FailureTarget=true conditions",
        f"{COND} cannot set SuccessCriteriaMet=True and Failed=true conditions",
        f"{COND} cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"]),
    ({}, {"startTime": START}, {"startTime": START, "conditions": [condition("SuccessCriteriaMet")]}, [
        f"{COND} cannot disable the SuccessCriteriaMet=True condition"]),
    ({}, COMPLETE, {**COMPLETE, "conditions": [condition("Complete")]}, [
        f"{COND} cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"]),
    ({}, {**FAILED, "conditions": [condition("Failed")]}, {}, [
        f"{COND} cannot set Failed=True condition without the FailureTarget=true condition"]),
    ({}, {**COMPLETE, "active": 1}, {}, ["status.active: Invalid value: 1: active>0 is invalid for finished job"]),
    ({}, {**COMPLETE, "terminating": 1}, {}, [
        "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"]),
    ({}, {**FAILED, "startTime": None}, {}, ["status.startTime: Required value: startTime is required for finished job"]),
    ({"suspend": True, "completions": 0}, {**FAILED, "startTime": None}, {}, []),
    ({}, {**COMPLETE, "uncountedTerminatedPods": {"failed": ["a"]}}, {}, [
        'status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: must be empty for finished job']),
    ({}, {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}}, {}, [
        'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
        'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"']),
    ({}, {"startTime": START}, FAILED, [
        f"{COND} cannot disable the terminal Failed=True condition",
        f"{COND} cannot disable the terminal FailureTarget=True condition"]),
    ({}, {"failed": 1, "succeeded": 1}, {"failed": 2, "succeeded": 2}, [
        "status.failed: Invalid value: 1: cannot decrease the failed counter",
        "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"]),
    ({"completionMode": "Indexed", "completions": 2, "parallelism": 2}, {"succeeded": 1}, {"succeeded": 2}, []),
    ({}, {"startTime": END}, {"startTime": START}, [
        f'status.startTime: Invalid value: "{END}": field is immutable for unsuspended job once set']),
    ({"suspend": True}, {"startTime": END}, {"startTime": START}, []),
    ({}, {**COMPLETE, "completionTime": START}, COMPLETE, [
        f'status.completionTime: Invalid value: "{START}": field is immutable']),
    ({"completions": 4}, {"completedIndexes": "0"}, {}, [
        'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode']),
    ({"completionMode": "Indexed", "completions": 4}, {"completedIndexes": "0-9"}, {}, [
        'status.completedIndexes: Invalid value: "0-9": error parsing completedIndexes: too large index: "9"']),
    ({"completionMode": "Indexed", "completions": 4}, {"completedIndexes": "0-9"}, {"completedIndexes": "0-9"}, []),
    ({"completionMode": "Indexed", "completions": 4}, {"failedIndexes": "1"}, {}, [
        'status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null']),
    ({"completionMode": "Indexed", "completions": 4, "backoffLimitPerIndex": 1},
     {"failedIndexes": "2", "completedIndexes": "0-3"}, {}, [
        'status.failedIndexes: Invalid value: "2": failedIndexes and completedIndexes overlap at index: 2']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "new", "old", "expected"), STATUSES)
def test_status(spec: Object, new: Object, old: Object, expected: list[str]) -> None:
    kept = {field: value for field, value in new.items() if value is not None}
    errors = JOBS.validate_status({"spec": spec, "status": kept}, {"spec": spec, "status": old})
    assert [str(error) for error in errors] == expected


def test_successes_are_selectable() -> None:
    assert JOBS.fields["status.successful"]({"status": {"succeeded": 2}}) == "2"
    assert JOBS.fields["status.successful"]({}) == "0"
