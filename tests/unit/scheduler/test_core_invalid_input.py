"""Whatever objects say, as long as they have the form of such objects: the loop goes on, and others are placed."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.core import FAILED, Scheduler
from alcove.scheduler.decisions import BindPod, Unschedulable
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.filters.base import Filter, FilterScope
from alcove.scheduler.nodes import HOSTNAME, ZONE
from alcove.scheduler.object_trimming import trim_node, trim_pod
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.profiles import SchedulerProfile
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.testing.scheduling import OTHER, TENANT, node, pod

_odd = st.sampled_from(
    ["", "-1", "0", "1", "1Gi", "1e3", "9" * 30, "NaN", "cpu", "web", "*", "a" * 300, ZONE, HOSTNAME, "n"]
)
_text = _odd | st.text(max_size=4)
_number = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]) | st.integers(-5, 200)
_size = st.sampled_from([0, -1, 2**63 - 1, -(2**63)])
_labels = st.dictionaries(_text, _text, max_size=2)
_amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "x/y", ""]), _text, max_size=3)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """An object with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def _few(each: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(each, max_size=2)


_operator = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "", "Like"])
_expression = _some(key=_text, operator=_operator, values=_few(_text))
_selector = _some(matchLabels=_labels, matchExpressions=_few(_expression)) | st.none()
_node_term = _some(matchExpressions=_few(_expression), matchFields=_few(_expression))
_pod_term = _some(
    labelSelector=_selector,
    topologyKey=_text,
    namespaces=_few(_text),
    namespaceSelector=_selector,
    matchLabelKeys=_few(_text),
    mismatchLabelKeys=_few(_text),
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_pod_affinity = st.fixed_dictionaries(
    {},
    optional={
        _REQUIRED: _few(_pod_term),
        _PREFERRED: _few(_some(weight=_number, podAffinityTerm=_pod_term)),
    },
)
_node_affinity = st.fixed_dictionaries(
    {},
    optional={
        _REQUIRED: _some(nodeSelectorTerms=_few(_node_term)),
        _PREFERRED: _few(_some(weight=_number, preference=_node_term)),
    },
)
_spread = _some(
    labelSelector=_selector,
    topologyKey=_text,
    maxSkew=_number,
    minDomains=_number,
    whenUnsatisfiable=_text,
    nodeAffinityPolicy=_text,
    nodeTaintsPolicy=_text,
    matchLabelKeys=_few(_text),
)
_resources = _some(requests=_amounts, limits=_amounts)
_container = _some(
    name=_text,
    image=_text,
    resources=_resources,
    restartPolicy=_text,
    ports=_few(_some(hostPort=_number, hostIP=_text, protocol=_text, containerPort=_number)),
)
_disk = _some(readOnly=st.booleans(), pdName=_text, volumeID=_text, iqn=_text, monitors=_few(_text))
_volume = _some(
    name=_text,
    persistentVolumeClaim=_some(claimName=_text),
    ephemeral=_some(volumeClaimTemplate=st.just({})),
    image=_some(reference=_text),
    gcePersistentDisk=_disk,
    awsElasticBlockStore=_disk,
    rbd=_disk,
    iscsi=_disk,
)
_spec = _some(
    containers=_few(_container),
    initContainers=_few(_container),
    resources=_resources,
    overhead=_amounts,
    nodeSelector=_labels,
    affinity=_some(nodeAffinity=_node_affinity, podAffinity=_pod_affinity, podAntiAffinity=_pod_affinity),
    tolerations=_few(_some(key=_text, operator=_text, value=_text, effect=_text)),
    topologySpreadConstraints=_few(_spread),
    volumes=_few(_volume),
    runtimeClassName=_text,
    priority=_number,
    preemptionPolicy=_text,
    nodeName=st.sampled_from(["", "n", "gone"]),
    resourceClaims=_few(st.just({"name": "x"})),
)
_taint = _some(key=_text, value=_text, effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "", "x"]))
_node_status = _some(
    allocatable=_amounts,
    capacity=_amounts,
    images=_few(_some(names=_few(_text), sizeBytes=_size)),
    runtimeHandlers=_few(_some(name=_text)),
)
_claim_spec = _some(
    accessModes=_few(_text),
    storageClassName=_text,
    resources=_resources,
    selector=_selector,
    volumeName=_text,
    volumeMode=_text,
)
_volume_spec = _some(
    capacity=st.dictionaries(st.just("storage"), _text, max_size=1),
    accessModes=_few(_text),
    storageClassName=_text,
    claimRef=_some(namespace=_text, name=_text, uid=_text),
    nodeAffinity=_some(required=_some(nodeSelectorTerms=_few(_node_term))),
)
_topology = _some(matchLabelExpressions=_few(_some(key=_text, values=_few(_text))))


def _named(
    kind: ObjectKind, **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[tuple[ObjectKind, Object]]:
    metadata = st.builds(
        lambda name, labels, noted: {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": noted,
        },
        _text,
        _labels,
        st.dictionaries(st.sampled_from(["own.held.scheduling.alcove.io/amounts", "x"]), _text, max_size=1),
    )
    return st.tuples(
        st.just(kind),
        st.builds(lambda meta, rest: {"metadata": meta, **rest}, metadata, _some(**fields)),
    )


_anything = st.one_of(
    _named(
        ObjectKind.NODE, spec=_some(taints=_few(_taint), unschedulable=st.booleans()), status=_node_status
    ),
    _named(ObjectKind.CLAIM, spec=_claim_spec, status=_some(phase=_text)),
    _named(ObjectKind.VOLUME, spec=_volume_spec, status=_some(phase=_text)),
    _named(
        ObjectKind.STORAGE_CLASS,
        provisioner=_text,
        volumeBindingMode=_text,
        allowedTopologies=_few(_topology),
    ),
    _named(ObjectKind.BUDGET, spec=_some(selector=_selector), status=_some(disruptionsAllowed=_number)),
    _named(ObjectKind.NAMESPACE),
    _named(ObjectKind.RUNTIME_CLASS, handler=_text),
    _named(ObjectKind.TENANT, spec=_some(weight=_number, quota=_some(hard=_amounts, min=_amounts))),
)
_status = _some(
    phase=_text,
    nominatedNodeName=st.sampled_from(["", "n", "gone"]),
    startTime=_text,
    containerStatuses=_few(_some(name=_text, resources=_resources, allocatedResources=_amounts)),
)


@st.composite
def _pods(draw: st.DrawFn) -> Object:
    made = pod("odd", draw(_labels))
    made["spec"] |= draw(_spec)
    made["status"] = draw(_status)
    return trim_pod(made)


def _decide(core: Scheduler) -> dict[str, str]:
    placed = {}
    while (decision := core.schedule_next()) is not None:
        if isinstance(decision, BindPod):
            placed[decision.pod.name] = decision.node
        elif isinstance(decision, Unschedulable):
            assert decision.text != FAILED
    return placed


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(_anything, max_size=6), st.lists(_pods(), min_size=1, max_size=3), st.booleans())
def test_odd_objects_stop_nobody(
    objects: list[tuple[ObjectKind, Object]], pods: list[Object], gone: bool
) -> None:
    now = 0.0
    core = Scheduler(lambda: now)
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("n", cpu="1000", pods="1000")))
    for kind, obj in objects:
        shown = trim_node(obj) if kind is ObjectKind.NODE else obj
        core.observe(
            SchedulerEvent(
                HOME, SYSTEM if kind in (ObjectKind.NODE, ObjectKind.TENANT) else TENANT, kind, shown
            )
        )
    for each in pods:
        core.observe(SchedulerEvent(HOME, TENANT, ObjectKind.POD, each))
    _decide(core)
    if gone:
        for kind, obj in objects:
            tenant = SYSTEM if kind in (ObjectKind.NODE, ObjectKind.TENANT) else TENANT
            core.observe(SchedulerEvent(HOME, tenant, kind, obj, True))
        for each in pods:
            core.observe(SchedulerEvent(HOME, TENANT, ObjectKind.POD, each, True))
    now = 1000.0
    core.observe(
        SchedulerEvent(
            HOME, OTHER, ObjectKind.POD, pod("plain", cpu="1", tolerations=[{"operator": "Exists"}])
        )
    )
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("m", cpu="1000", pods="1000")))
    assert "plain" in _decide(core)


class _Broken(Filter):
    name = "Broken"
    scope = FilterScope.WORLD
    cured_by = WakeCause.NOTHING

    def passes(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Bools:
        raise RuntimeError("a secret of ring0's")


def test_a_filter_that_fails_costs_its_pod_and_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    profiles = {
        "default-scheduler": SchedulerProfile("default-scheduler"),
        "mine": SchedulerProfile("mine", (_Broken(),)),
    }
    core = Scheduler(lambda: 0.0, profiles=profiles)
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("n")))
    core.observe(SchedulerEvent(HOME, TENANT, ObjectKind.POD, pod("broken", schedulerName="mine")))
    core.observe(SchedulerEvent(HOME, TENANT, ObjectKind.POD, pod("fine")))
    with caplog.at_level(logging.CRITICAL):
        decisions = [core.schedule_next(), core.schedule_next()]
    messages = [each.text for each in decisions if isinstance(each, Unschedulable)]
    assert [each.pod.name for each in decisions if isinstance(each, BindPod)] == ["fine"]
    assert messages == [FAILED]
