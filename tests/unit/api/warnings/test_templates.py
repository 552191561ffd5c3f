"""Pods and templates: each line of the tables, and a pod without warnings."""

from typing import Any

import pytest

from alcove.api import registry, warnings
from alcove.api.objects import Object
from alcove.api.warnings.templates import pod, template

C = "spec.containers[0]"
SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'


def made(*containers: Object, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    first = {"name": "main", "image": "i"}
    given = [{**first, **container} for container in containers] or [first]
    made: Object = {"metadata": {"name": "web"}, "spec": {"containers": given, **spec}}
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made


def affine(**kinds: Any) -> Object:
    return made(affinity=kinds)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OLD_OS = {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": ["no value!"]}]}
OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
NULL = "a null labelSelector results in matching no pod"


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        (made(nodeSelector={"beta.kubernetes.io/os": "linux", "a": "b"}), [f"spec.nodeSelector[beta.kubernetes.io/os]: {OS}"]),
        (affine(nodeAffinity={REQUIRED: {"nodeSelectorTerms": [OLD_OS]}}),
         [f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is {OS}"]),
        (affine(podAffinity={REQUIRED: [{"topologyKey": "a"}]}), [f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector: {NULL}"]),
        (affine(podAntiAffinity={PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}]}),
         [f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.labelSelector: {NULL}"]),
        (made(topologySpreadConstraints=[{"topologyKey": "beta.kubernetes.io/os", "labelSelector": {}}]),
         [f"spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is {OS}"]),
        (made(topologySpreadConstraints=[{"topologyKey": "a"}]), [f"spec.topologySpreadConstraints[0].labelSelector: {NULL}"]),
        (made(annotations={"scheduler.alpha.kubernetes.io/critical-pod": ""}),
         ['metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead']),
        (made(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
         [f"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: {SECCOMP}"]),
        (made(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}, securityContext={"seccompProfile": {"type": "Unconfined"}}), []),
        (made(annotations={"container.seccomp.security.alpha.kubernetes.io/main": "unconfined"}),
         [f"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/main]: {SECCOMP}"]),
        (made(annotations={"container.seccomp.security.alpha.kubernetes.io/other": "unconfined"}), []),
        (made(volumes=[{"name": "v", "gitRepo": {"repository": "r"}}]),
         ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"]),
        (made(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1500m"}}}}}}]),
         ['spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer']),
        (made(hostAliases=[{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]), ['spec.hostAliases[1].ip: duplicate ip "10.0.0.1"']),
        (made(hostAliases=[{"ip": "2001:DB8::1"}]),
         ['spec.hostAliases[0].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")']),
        (made(imagePullSecrets=[{"name": "a"}, {"name": "a"}]), ['spec.imagePullSecrets[1].name: duplicate name "a"']),
        (made(imagePullSecrets=[{}]), ['spec.imagePullSecrets[0].name: invalid empty name ""']),
        (made(overhead={"memory": "0.5"}), ['spec.overhead[memory]: fractional byte value "500m" is invalid, must be an integer']),
        (made({"resources": {"limits": {"memory": "128m", "cpu": "100m"}}}),
         [f'{C}.resources.limits[memory]: fractional byte value "128m" is invalid, must be an integer']),
        (made({"resources": {"requests": {"memory": "64Mi", "ephemeral-storage": "1G"}}}), []),
        (made({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
         [f'{C}.env[1]: hides previous definition of "A", which may be dropped when using apply']),
        (made({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}), []),
        (made({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)"}]}),
         [f'{C}.env[1]: hides previous definition of "A", which may be dropped when using apply']),
        (made({"env": [{"name": "A", "value": "1"}, {"name": "A", "valueFrom": {}}]}),
         [f'{C}.env[1]: hides previous definition of "A", which may be dropped when using apply']),
        (made(terminationGracePeriodSeconds=-1),
         ["spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"]),
    ],
)  # fmt: skip
def test_warnings_of_a_pod(given: Object, messages: list[str]) -> None:
    assert pod(given, None) == messages


def test_values_of_preferred_terms_are_checked() -> None:
    given = affine(nodeAffinity={PREFERRED: [{"weight": 1, "preference": OLD_OS}]})
    first, second = pod(given, None)
    assert first.endswith(f"[0].preference.matchExpressions[0].key: beta.kubernetes.io/os is {OS}")
    assert "matchExpressions[0].values[0]: no value! is invalid, a valid label must be" in second


def test_a_name_that_is_no_label() -> None:
    given = made()
    given["metadata"]["name"] = "web.one"
    [message] = pod(given, None)
    assert message.startswith(
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        "a DNS label is recommended: [must not contain dots]"
    )


def test_an_updated_pod_has_no_warnings() -> None:
    assert pod(made(terminationGracePeriodSeconds=-1), made()) == []


@pytest.mark.parametrize(
    ("pod_profile", "is_told"),
    [(None, True), ({"type": "Unconfined"}, True), ({"type": "RuntimeDefault"}, False)],
)
def test_apparmor_by_annotation_in_a_template(pod_profile: Object | None, is_told: bool) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/main"
    spec = {"securityContext": {"appArmorProfile": pod_profile}} if pod_profile else {}
    given = made(annotations={key: "runtime/default"}, **spec)
    message = f'spec.template.metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert template(given, "spec.template.") == ([message] if is_told else [])


def test_the_defaults_are_valid() -> None:
    kinds = registry.load()
    kind = kinds.find("", "v1", "pods")
    assert kind is not None
    given = made({"ports": [{"containerPort": 80}]})
    kind.strategy.default(given)
    assert warnings.of(kind, given, None) == []


def test_every_resource_in_the_table_is_served() -> None:
    served = {(kind.group, kind.resource) for kind in registry.load().all()}
    assert set(warnings.TABLE) <= served
