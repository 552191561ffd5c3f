"""What of a tenant is saved, and in which form its objects are created again. Pure.

What the cluster allocated, observed or made by itself is not restored: the restored tenant gets its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from alcove.api import local_volumes, objects
from alcove.api.kinds.core.pods.copies import unscheduled
from alcove.api.objects import Object, get
from alcove.cli.tenant_backup.archive import ArchivedObject
from alcove.client.discovery import ServedResource
from alcove.client.resources import Resource
from alcove.network.wellknown import is_wellknown

NOT_SAVED = frozenset(
    {
        ("", "events"),
        ("", "nodes"),
        ("", "componentstatuses"),
        ("coordination.k8s.io", "leases"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("certificates.k8s.io", "podcertificaterequests"),
        ("networking.k8s.io", "ipaddresses"),
        ("networking.k8s.io", "servicecidrs"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "csinodes"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)
"""Resources that are about this cluster at this time, by group and name."""

_FIRST = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("", "namespaces"),
    ("arktos.futurewei.com", "networks"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("storage.k8s.io", "storageclasses"),
    ("", "serviceaccounts"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "roles"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "persistentvolumes"),
    ("", "persistentvolumeclaims"),
    ("", "services"),
    ("batch", "cronjobs"),
    ("apps", "deployments"),
)
"""What others need, or own others, in this order. Owners that come later are waited for too (`restoring.py`)."""
_LAST = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io"})
_LAST_NAMES = frozenset({("", "pods"), ("", "resourcequotas"), ("", "limitranges")})
"""What could refuse the rest: the tenant's own webhooks, policies and quotas."""

_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
_OF_A_VOLUME = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
_JOB_LABELS = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)
_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_ACCOUNT_UID = "kubernetes.io/service-account.uid"

UNFILLED_ANNOTATION = "alcove.io/restoring-files"
"""Of a claim: the files of its volume are being restored. If that is interrupted, the next restore does it again."""

ALLOCATED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "services"): ("clusterIP", "clusterIPs", "healthCheckNodePort"),
    ("", "persistentvolumeclaims"): ("volumeName",),
}
"""Fields of specs that the cluster sets. They are kept when an existing object is overwritten."""


def is_saved(served: ServedResource) -> bool:
    names = (served.resource.group, served.resource.resource)
    return served.verbs >= {"list", "create"} and names not in NOT_SAVED


def in_restore_order(resources: Iterable[Resource]) -> list[Resource]:
    def rank(resource: Resource) -> tuple[int, Resource]:
        names = (resource.group, resource.resource)
        if names in _FIRST:
            return _FIRST.index(names), resource
        is_last = resource.group in _LAST or names in _LAST_NAMES
        return len(_FIRST) + is_last, resource

    return sorted(resources, key=rank)


def skipped(archived: ArchivedObject) -> str:
    """Why the object is not restored; empty if it is."""
    obj, names = archived.obj, (archived.resource.group, archived.resource.resource)
    metadata = obj["metadata"]
    if names in NOT_SAVED:
        return "of no use in another cluster"
    if metadata.get("resourceVersion") == "0":
        return "built in"
    if metadata.get("deletionTimestamp"):
        return "being deleted"
    match names:
        case ("", "pods"):
            return _skipped_pod(obj)
        case ("batch", "jobs") if _has_condition(obj, "Complete") or _has_condition(obj, "Failed"):
            return "finished"
        case ("", "services") if is_wellknown(obj):
            return "made by the network"
        case ("", "configmaps") if archived.name == "kube-root-ca.crt":
            return "made by a controller"
        case ("", "persistentvolumes") if local_volumes.is_local(obj) or _is_provisioned(obj):
            return "made for a claim"
        case ("", "endpoints") | ("discovery.k8s.io", "endpointslices") if _is_managed(obj):
            return "made by a controller"
    return ""


def _skipped_pod(pod: Object) -> str:
    if any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ()):
        return "made by a controller"
    return "finished" if get(pod, "status", "phase") in ("Succeeded", "Failed") else ""


def _is_provisioned(volume: Object) -> bool:
    return "pv.kubernetes.io/provisioned-by" in objects.annotations(volume)


def _is_managed(obj: Object) -> bool:
    return any(label.endswith("/managed-by") and "kubernetes.io" in label for label in objects.labels(obj))


def _has_condition(obj: Object, type_: str) -> bool:
    conditions = get(obj, "status", "conditions", default=())
    return any(each.get("type") == type_ and each.get("status") == "True" for each in conditions)


def owners(obj: Object) -> list[str]:
    """The uids of the object's owners."""
    return [str(each.get("uid", "")) for each in obj["metadata"].get("ownerReferences") or ()]


def restored(archived: ArchivedObject, target: str, uids: Mapping[str, str]) -> Object:
    """The object to create in the tenant `target`. `uids` are the new uids of restored objects by their old ones; owners
    without one are left out, since the garbage collector would delete the object with them."""
    resource, old = archived.resource, archived.obj
    # The server drops the status where it is a subresource; elsewhere it is the user's.
    body = {field: value for field, value in old.items() if field not in ("metadata", "apiVersion", "kind")}
    metadata = {field: old["metadata"][field] for field in _METADATA if old["metadata"].get(field)}
    new: Object = copy.deepcopy({"apiVersion": resource.api_version, "kind": resource.kind, **body})
    new["metadata"] = copy.deepcopy(metadata)
    _set_owners(new, uids)
    match resource.group, resource.resource:
        case "", "namespaces":
            new.pop("spec", None)
        case "", "pods":
            new = unscheduled(new)
        case "", "services":
            _free_addresses(new)
        case "", "persistentvolumeclaims":
            new["spec"].pop("volumeName", None)
            _drop_annotations(new, (*_OF_A_VOLUME, UNFILLED_ANNOTATION))
        case "", "persistentvolumes":
            new["spec"].pop("claimRef", None)
            _drop_annotations(new, _OF_A_VOLUME)
        case "", "secrets" if new.get("type") == _ACCOUNT_TOKEN:
            new.pop("data", None)
            _drop_annotations(new, (_ACCOUNT_UID,))
        case "batch", "jobs":
            _free_selector(new)
        case "arktos.futurewei.com", "networks" if target != old["metadata"].get("tenant"):
            # A VPC is one tenant's.
            new["spec"].pop("vpcID", None)
    return new


def mark_unfilled(claim: Object) -> None:
    claim["metadata"].setdefault("annotations", {})[UNFILLED_ANNOTATION] = "true"


def is_unfilled(claim: Object) -> bool:
    return UNFILLED_ANNOTATION in objects.annotations(claim)


def _set_owners(new: Object, uids: Mapping[str, str]) -> None:
    references = new["metadata"].pop("ownerReferences", [])
    if kept := [{**each, "uid": uids[each["uid"]]} for each in references if each.get("uid") in uids]:
        new["metadata"]["ownerReferences"] = kept


def _free_addresses(service: Object) -> None:
    spec = service["spec"]
    if spec.get("clusterIP") != "None":
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    spec.pop("healthCheckNodePort", None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)


def _free_selector(job: Object) -> None:
    """The selector of a job has its uid, unless the user has written it."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    for labelled in (job, spec.get("template") or {}):
        labels: Any = objects.labels(labelled)
        for label in _JOB_LABELS:
            labels.pop(label, None)


def _drop_annotations(obj: Object, prefixes: tuple[str, ...]) -> None:
    annotations = objects.annotations(obj)
    for each in [each for each in annotations if each.startswith(prefixes)]:
        del annotations[each]


def overwritten(new: Object, existing: Object, resource: Resource) -> Object:
    """The update of an existing object to what was saved."""
    result = {**new, "metadata": {**new["metadata"]}}
    metadata = existing["metadata"]
    result["metadata"]["resourceVersion"] = metadata["resourceVersion"]
    result["metadata"]["finalizers"] = metadata.get("finalizers", [])
    if resource.resource == "namespaces" and not resource.group:
        result["spec"] = existing.get("spec", {})
    for field in ALLOCATED.get((resource.group, resource.resource), ()):
        if (value := get(existing, "spec", field)) is not None:
            result["spec"] = {**result["spec"], field: value}
    return result
