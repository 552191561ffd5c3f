"""Every check of the Pod Security Standards: what violates it, its message, and its first version."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.apiserver.admission.podsecurity import baseline, standards
from alcove.apiserver.admission.podsecurity.baseline import PodView
from alcove.apiserver.admission.podsecurity.levels import LATEST, Level, Standard

HARDENED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
}


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", **fields}


def secured(name: str = "c", **security: Any) -> dict[str, Any]:
    return container(name, securityContext=security)


def found(
    spec: dict[str, Any],
    level: Level = Level.BASELINE,
    minor: int = LATEST,
    annotations: dict[str, str] | None = None,
) -> str:
    pod = PodView.of({"annotations": annotations or {}}, {"containers": [], **spec})
    violation = standards.violation(Standard(level, minor), pod)
    return violation.details if violation else ""


def one(**security: Any) -> dict[str, Any]:
    return {"containers": [secured(**security)]}


def test_privileged_allows_everything() -> None:
    assert found({"hostNetwork": True, **one(privileged=True)}, Level.PRIVILEGED) == ""


def test_a_hardened_pod_breaks_nothing_at_any_version() -> None:
    spec = {"containers": [secured(**HARDENED)], "volumes": [{"name": "v", "secret": {}}]}
    for minor in (*range(40), LATEST):
        assert found(spec, Level.RESTRICTED, minor) == ""


BASELINE: list[tuple[dict[str, Any], str]] = [
    (
        {"hostNetwork": True, "hostPID": True, "hostIPC": True},
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (
        {"initContainers": [secured("a", privileged=True)], "containers": [secured("b", privileged=True)]},
        'privileged (containers "a", "b" must not set securityContext.privileged=true)',
    ),
    (
        one(capabilities={"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}),
        'non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        {"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "hostPath": {"path": "/b"}}]},
        'hostPath volumes (volumes "a", "b")',
    ),
    (
        {"containers": [container(ports=[{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}])]},
        'hostPort (container "c" uses hostPorts 443, 80)',
    ),
    (
        {"ephemeralContainers": [container("e", livenessProbe={"tcpSocket": {"host": "10.0.0.1"}})]},
        'probe or lifecycle host (container "e" uses probe or lifecycle host "10.0.0.1")',
    ),
    (
        {"containers": [container(lifecycle={"preStop": {"httpGet": {"host": "a"}}})]},
        'probe or lifecycle host (container "c" uses probe or lifecycle host "a")',
    ),
    (
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    (
        one(procMount="Unmasked"),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        {
            "securityContext": {"seLinuxOptions": {"type": "x_t", "user": "u"}},
            **one(seLinuxOptions={"role": "r"}),
        },
        'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: type "x_t"; '
        "user may not be set; role may not be set)",
    ),
    (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_syncookies"}]}},
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        one(windowsOptions={"hostProcess": True}),
        'hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
]


@pytest.mark.parametrize(("spec", "message"), BASELINE, ids=lambda value: str(value)[:30])
def test_baseline(spec: dict[str, Any], message: str) -> None:
    assert found(spec) == message


@pytest.mark.parametrize(("spec", "message"), BASELINE, ids=lambda value: str(value)[:30])
def test_restricted_refuses_all_that_baseline_refuses(spec: dict[str, Any], message: str) -> None:
    assert found(spec, Level.RESTRICTED) != ""


def test_apparmor_annotations_of_old() -> None:
    spec = {"containers": [secured(appArmorProfile={"type": "Unconfined"})]}
    key = "container.apparmor.security.beta.kubernetes.io/c"
    assert found(spec, annotations={key: "unconfined"}) == (
        'forbidden AppArmor profiles (container "c" and annotation must not set AppArmor profile type to '
        f'"Unconfined", "{key}="unconfined"")'
    )


@pytest.mark.parametrize(
    ("spec", "since"),
    [
        ({"containers": [container(startupProbe={"httpGet": {"host": "a"}})]}, 34),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, 19),
    ],
)
def test_some_baseline_checks_came_later(spec: dict[str, Any], since: int) -> None:
    assert found(spec, minor=since - 1) == "" and found(spec, minor=since) != ""


@pytest.mark.parametrize(
    ("spec", "until"),
    [
        ({"securityContext": {"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}}, 27),
        ({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]}}, 29),
        ({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, 32),
        ({"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}, 31),
        ({"hostUsers": False, **one(procMount="Unmasked")}, 35),
    ],
)
def test_some_baseline_checks_were_relaxed(spec: dict[str, Any], until: int) -> None:
    assert found(spec, minor=until - 1) != "" and found(spec, minor=until) == ""


def test_seccomp_annotations_before_1_19() -> None:
    spec = {"containers": [container()]}
    message = found(spec, minor=18, annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"})
    assert message == (
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    )


RESTRICTED: list[tuple[dict[str, Any], str]] = [
    (
        one(**{**HARDENED, "allowPrivilegeEscalation": True}),
        'allowPrivilegeEscalation != false (container "c" must set '
        "securityContext.allowPrivilegeEscalation=false)",
    ),
    (
        one(**{**HARDENED, "capabilities": {"add": ["CHOWN"]}}),
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; '
        'container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        one(**{**HARDENED, "runAsNonRoot": False}),
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    (
        {"securityContext": {"runAsNonRoot": False}, **one(**{**HARDENED, "runAsNonRoot": None})},
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
    ),
    (
        {"securityContext": {"runAsUser": 0}, **one(**{**HARDENED, "runAsUser": 0})},
        'runAsUser=0 (pod and container "c" must not set runAsUser=0)',
    ),
    (
        one(**{**HARDENED, "seccompProfile": None}),
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" '
        'or "Localhost")',
    ),
    (
        {
            **one(**HARDENED),
            "volumes": [{"name": "a", "nfs": {}}, {"name": "b", "hostPath": {}}, {"name": "c", "odd": {}}],
        },
        'restricted volume types (volumes "a", "b", "c" use restricted volume types "hostPath", "nfs", "unknown")',
    ),
    (
        {"hostUsers": False, **one(**HARDENED, procMount="Unmasked")},
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
]


@pytest.mark.parametrize(("spec", "message"), RESTRICTED, ids=lambda value: str(value)[:30])
def test_restricted(spec: dict[str, Any], message: str) -> None:
    assert found(spec, Level.RESTRICTED) == message


def test_the_pods_security_context_applies_to_containers_without_one() -> None:
    pod_level = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert found({"securityContext": pod_level, **one(**own)}, Level.RESTRICTED) == ""


def test_root_in_a_user_namespace_and_windows_are_relaxed() -> None:
    rooted = one(**{**HARDENED, "runAsNonRoot": False, "runAsUser": 0})
    assert found({"hostUsers": False, **rooted}, Level.RESTRICTED) == ""
    assert found({"hostUsers": False, **rooted}, Level.RESTRICTED, 34) != ""
    assert found({"os": {"name": "windows"}, **one(runAsNonRoot=True)}, Level.RESTRICTED) == ""


contexts = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "procMount": st.sampled_from(["Default", "Unmasked"]),
        "seccompProfile": st.sampled_from([{"type": "Unconfined"}, {"type": "RuntimeDefault"}]),
        "appArmorProfile": st.just({"type": "Unconfined"}),
        "seLinuxOptions": st.just({"user": "u"}),
        "windowsOptions": st.just({"hostProcess": True}),
        "capabilities": st.just({"add": ["SYS_ADMIN"]}),
        "sysctls": st.just([{"name": "kernel.x"}]),
    },
)
keys = st.sampled_from(
    [
        "a",
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.seccomp.security.alpha.kubernetes.io/c",
        "container.apparmor.security.beta.kubernetes.io/c",
    ]
)


@given(contexts, contexts, st.dictionaries(keys, st.just("unconfined"), max_size=2), st.integers(0, 36))
def test_a_bare_pod_is_spared_only_checks_it_cannot_break(
    of_pod: dict[str, Any], own: dict[str, Any], annotations: dict[str, str], minor: int
) -> None:
    spec = {"containers": [secured(**own)], "securityContext": of_pod}
    pod = PodView.of({"annotations": annotations}, spec)
    findings = [
        finding
        for _, _, versions in baseline.CHECKS
        if (checks := [check for since, check in versions if since <= minor])
        and (finding := checks[-1](pod)) is not None
    ]
    violation = standards.violation(Standard(Level.BASELINE, minor), pod)
    assert list(violation.findings if violation else ()) == findings
