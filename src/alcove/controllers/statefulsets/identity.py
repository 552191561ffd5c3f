"""The identity of a stateful set's pods: ordinal, name and volume claims. Pure."""

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
_ORDINAL = re.compile(r"(.*)-([0-9]{1,10})")


def ordinal_of(stateful_set: Object, name: str) -> int | None:
    """The ordinal in a pod's name. None if it is not a name of this set's pods."""
    match = _ORDINAL.fullmatch(name)
    if match is None or match[1] != stateful_set["metadata"]["name"] or str(int(match[2])) != match[2]:
        return None
    return int(match[2])


def ordinals(stateful_set: Object) -> range:
    """The desired ordinals."""
    start: int = get(stateful_set, "spec", "ordinals", "start", default=0)
    return range(start, start + get(stateful_set, "spec", "replicas", default=1))


def pod_name(stateful_set: Object, ordinal: int) -> str:
    return f"{stateful_set['metadata']['name']}-{ordinal}"


def claim_name(stateful_set: Object, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{pod_name(stateful_set, ordinal)}"


def claim_templates(stateful_set: Object) -> list[Object]:
    return get(stateful_set, "spec", "volumeClaimTemplates", default=[])  # type: ignore[no-any-return]


def pod(stateful_set: Object, template: Object, revision: str, ordinal: int) -> Object:
    """The pod to create from a revision's template."""
    new_pod = pod_of(template, reference(STATEFUL_SETS, stateful_set))
    name = pod_name(stateful_set, ordinal)
    new_pod["metadata"]["name"] = name
    new_pod["metadata"]["labels"] = {
        **(new_pod["metadata"].get("labels") or {}),
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        REVISION: revision,
    }
    spec: dict[str, Any] = new_pod["spec"]
    spec["hostname"] = name
    if service := stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = service
    claim_volumes = {each["metadata"]["name"] for each in claim_templates(stateful_set)}
    volumes = [each for each in spec.get("volumes") or () if each.get("name") not in claim_volumes]
    for each in claim_templates(stateful_set):
        claim = {"claimName": claim_name(stateful_set, each, ordinal)}
        volumes.append({"name": each["metadata"]["name"], "persistentVolumeClaim": claim})
    if volumes:
        spec["volumes"] = volumes
    return new_pod


def claims(stateful_set: Object, ordinal: int) -> list[Object]:
    """The claims to create for a pod."""
    selected = get(stateful_set, "spec", "selector", "matchLabels", default={})
    result = []
    for template in claim_templates(stateful_set):
        metadata = template["metadata"]
        claim: Object = {
            "metadata": {
                "name": claim_name(stateful_set, template, ordinal),
                "namespace": stateful_set["metadata"]["namespace"],
                "labels": {**labels(template), **selected},
            },
            "spec": template["spec"],
        }
        if metadata.get("annotations"):
            claim["metadata"]["annotations"] = metadata["annotations"]
        if retention(stateful_set, "whenDeleted") == "Delete":
            claim["metadata"]["ownerReferences"] = [reference(STATEFUL_SETS, stateful_set)]
        result.append(claim)
    return result


def retention(stateful_set: Object, when: str) -> str:
    policy = get(stateful_set, "spec", "persistentVolumeClaimRetentionPolicy", default={})
    return policy.get(when, "Retain")  # type: ignore[no-any-return]


def claim_owners(stateful_set: Object, condemned: Object | None, existing: list[Object]) -> list[Object]:
    """The owner references of a claim by the retention policy: the set, or the pod if it is being scaled
    down. References to other objects stay."""
    uid = stateful_set["metadata"]["uid"]
    owners = [
        each
        for each in existing
        if each.get("uid") != uid
        and not (each.get("kind") == "Pod" and ordinal_of(stateful_set, each.get("name", "")) is not None)
    ]
    if condemned is not None and retention(stateful_set, "whenScaled") == "Delete":
        metadata = condemned["metadata"]
        owners.append({"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]})
    elif retention(stateful_set, "whenDeleted") == "Delete":
        owners.append(reference(STATEFUL_SETS, stateful_set))
    return owners
