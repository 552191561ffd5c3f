"""The flow schemas and priority levels that every Kubernetes cluster has. *Mandatory* ones have a fixed spec."""

from collections.abc import Mapping

from alcove.api.objects import Object

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
EXEMPT = "exempt"
CATCH_ALL = "catch-all"
MANDATORY = (EXEMPT, CATCH_ALL)

DANGLING = "Dangling"
_BEGINNING = "1970-01-01T00:00:00Z"


def dangling(level: str, exists: bool) -> tuple[str, str]:
    """The reason and message of a flow schema's condition Dangling."""
    found = "and it exists" if exists else "but there is no such object"
    message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" {found}'
    return "Found" if exists else "NotFound", message


def _object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "annotations": {AUTO_UPDATE: "true"}, "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _level(name: str, shares: int, lendable: int, queues: int = 0, hand: int = 0) -> Object:
    """A limited priority level; it rejects requests if it has no queues."""
    response: Object = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return _object("PriorityLevelConfiguration", name, {"type": "Limited", "limited": limited})


PRIORITY_LEVELS: Mapping[str, Object] = {
    level["metadata"]["name"]: level
    for level in (
        _object(
            "PriorityLevelConfiguration",
            EXEMPT,
            {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
        ),
        _level(CATCH_ALL, 5, 0),
        _level("system", 30, 33, 64, 6),
        _level("node-high", 40, 25, 64, 6),
        _level("leader-election", 10, 0, 16, 4),
        _level("workload-high", 40, 50, 128, 6),
        _level("workload-low", 100, 90, 128, 6),
        _level("global-default", 20, 50, 128, 6),
    )
}


def _rule(verbs: str, groups: str, resources: str, *, cluster: bool = True) -> Object:
    rule: Object = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "namespaces": ["*"],
    }
    return {**rule, "clusterScope": True} if cluster else rule


def _paths(verbs: str, urls: str) -> Object:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


_EVERY_RESOURCE = _rule("*", "*", "*")
_EVERY_PATH = _paths("*", "*")


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Object]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


_KUBE_SYSTEM = [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}]
_EVERYBODY = _groups("system:unauthenticated", "system:authenticated")


def _schema(
    name: str,
    level: str,
    precedence: int,
    subjects: list[Object],
    resources: tuple[Object, ...] = (_EVERY_RESOURCE,),
    paths: tuple[Object, ...] = (_EVERY_PATH,),
    by: str = "ByUser",
) -> Object:
    rules: Object = {"subjects": subjects}
    if resources:
        rules["resourceRules"] = list(resources)
    if paths:
        rules["nonResourceRules"] = list(paths)
    spec: Object = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rules],
    }
    if by:
        spec["distinguisherMethod"] = {"type": by}
    reason, message = dangling(level, exists=True)
    condition = {
        "type": DANGLING,
        "status": "False",
        "lastTransitionTime": _BEGINNING,
        "reason": reason,
        "message": message,
    }
    return {**_object("FlowSchema", name, spec), "status": {"conditions": [condition]}}


FLOW_SCHEMAS: Mapping[str, Object] = {
    schema["metadata"]["name"]: schema
    for schema in (
        _schema(EXEMPT, EXEMPT, 1, _groups("system:masters"), by=""),
        _schema("probes", EXEMPT, 2, _EVERYBODY, (), (_paths("get", "/healthz /readyz /livez"),), by=""),
        _schema(
            "system-leader-election",
            "leader-election",
            100,
            [*_users("system:kube-controller-manager", "system:kube-scheduler"), *_KUBE_SYSTEM],
            (_rule("get create update", "coordination.k8s.io", "leases", cluster=False),),
            (),
        ),
        _schema(
            "system-node-high",
            "node-high",
            400,
            _groups("system:nodes"),
            (
                _rule("*", "core", "nodes nodes/status"),
                _rule("*", "coordination.k8s.io", "leases", cluster=False),
            ),
            (),
        ),
        _schema("system-nodes", "system", 500, _groups("system:nodes")),
        _schema(
            "kube-controller-manager",
            "workload-high",
            800,
            _users("system:kube-controller-manager"),
            by="ByNamespace",
        ),
        _schema("kube-scheduler", "workload-high", 800, _users("system:kube-scheduler"), by="ByNamespace"),
        _schema("kube-system-service-accounts", "workload-high", 900, _KUBE_SYSTEM, by="ByNamespace"),
        _schema("service-accounts", "workload-low", 9000, _groups("system:serviceaccounts")),
        _schema("global-default", "global-default", 9900, _EVERYBODY),
        _schema(CATCH_ALL, CATCH_ALL, 10000, _EVERYBODY),
    )
}
