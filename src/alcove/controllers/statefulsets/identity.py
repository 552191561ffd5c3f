"""What makes a stateful set's pod that very one: its ordinal, its name, its claims. Pure."""

from __future__ import annotations

import re
from typing import Any

from alcove.api.objects import Object, get, labels
from alcove.client.resources import STATEFUL_SETS
from alcove.controllers.workloads.controller_refs import reference
from alcove.controllers.workloads.history import POD_LABEL
from alcove.controllers.workloads.templates import pod_of

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
REVISION = POD_LABEL
_ORDINAL = re.compile(r"(.*)-([0-9]{1,9})")


def ordinal_of(stateful_set: Object, name: str) -> int | None:
    """The ordinal that a pod's name tells; None: it is no name of this set's pods."""
    found = _ORDINAL.fullmatch(name)
    if found is None or found[1] != stateful_set["metadata"]["name"] or str(int(found[2])) != found[2]:
        return None
    return int(found[2])


def ordinals(stateful_set: Object) -> range:
    """Those that should be there."""
    start: int = get(stateful_set, "spec", "ordinals", "start", default=0)
    return range(start, start + get(stateful_set, "spec", "replicas", default=1))


def pod_name(stateful_set: Object, ordinal: int) -> str:
    return f"{stateful_set['metadata']['name']}-{ordinal}"


def claim_name(stateful_set: Object, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{pod_name(stateful_set, ordinal)}"


def claim_templates(stateful_set: Object) -> list[Object]:
    return get(stateful_set, "spec", "volumeClaimTemplates", default=[])  # type: ignore[no-any-return]


def pod(stateful_set: Object, template: Object, revision: str, ordinal: int) -> Object:
    """The pod to create, of a revision's template."""
    made = pod_of(template, reference(STATEFUL_SETS, stateful_set))
    name = pod_name(stateful_set, ordinal)
    made["metadata"]["name"] = name
    made["metadata"]["labels"] = {
        **(made["metadata"].get("labels") or {}),
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        REVISION: revision,
    }
    spec: dict[str, Any] = made["spec"]
    spec["hostname"] = name
    if service := stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = service
    own = {each["metadata"]["name"] for each in claim_templates(stateful_set)}
    volumes = [each for each in spec.get("volumes") or () if each.get("name") not in own]
    for each in claim_templates(stateful_set):
        claim = {"claimName": claim_name(stateful_set, each, ordinal)}
        volumes.append({"name": each["metadata"]["name"], "persistentVolumeClaim": claim})
    if volumes:
        spec["volumes"] = volumes
    return made


def claims(stateful_set: Object, ordinal: int) -> list[Object]:
    """The claims that a pod needs, as they are created."""
    selected = get(stateful_set, "spec", "selector", "matchLabels", default={})
    result = []
    for template in claim_templates(stateful_set):
        metadata = template["metadata"]
        made: Object = {
            "metadata": {
                "name": claim_name(stateful_set, template, ordinal),
                "namespace": stateful_set["metadata"]["namespace"],
                "labels": {**labels(template), **selected},
            },
            "spec": template["spec"],
        }
        if metadata.get("annotations"):
            made["metadata"]["annotations"] = metadata["annotations"]
        if retention(stateful_set, "whenDeleted") == "Delete":
            made["metadata"]["ownerReferences"] = [reference(STATEFUL_SETS, stateful_set)]
        result.append(made)
    return result


def retention(stateful_set: Object, when: str) -> str:
    policy = get(stateful_set, "spec", "persistentVolumeClaimRetentionPolicy", default={})
    return policy.get(when, "Retain")  # type: ignore[no-any-return]


def claim_owners(stateful_set: Object, condemned: Object | None, there: list[Object]) -> list[Object]:
    """Who a claim goes with: the set, or its pod once that is not to come back; others' references stay."""
    uid = stateful_set["metadata"]["uid"]
    kept = [
        each
        for each in there
        if each.get("uid") != uid
        and not (each.get("kind") == "Pod" and ordinal_of(stateful_set, each.get("name", "")) is not None)
    ]
    if condemned is not None and retention(stateful_set, "whenScaled") == "Delete":
        metadata = condemned["metadata"]
        kept.append({"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]})
    elif retention(stateful_set, "whenDeleted") == "Delete":
        kept.append(reference(STATEFUL_SETS, stateful_set))
    return kept
