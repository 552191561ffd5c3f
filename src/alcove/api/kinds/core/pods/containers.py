"""Containers, init containers and ephemeral containers of a pod spec."""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from alcove.api import names
from alcove.api.fields import duplicate, forbidden, invalid, not_found, not_supported, required, too_many
from alcove.api.kinds.core.pods.environment import check_environment
from alcove.api.kinds.core.pods.mounts import Volumes, check_mounts
from alcove.api.kinds.core.pods.probes import check_lifecycle, check_probes
from alcove.api.kinds.core.pods.security import check_container_security
from alcove.api.kinds.core.pods.totals import is_sidecar
from alcove.api.kinds.core.resources import check_requirements
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_port, check_required_choice, check_value

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_RESTART_RULES_MAX = 20
_EXIT_CODES_MAX = 255
_NEVER_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_FOR_SIDECARS = "may not be set for init containers without restartPolicy=Always"


class PodContext(Struct, frozen=True):
    """The parts of a pod that the rules of a container depend on."""

    volumes: Volumes
    claim_names: Collection[str]
    restart_policy: str
    grace_seconds: int | None
    os: str
    """`linux`, `windows`, or empty."""
    host_users: bool


def all_containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """Yield every container with its path, init containers first."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field, ())):
            yield container, f"{path}.{field}[{index}]"


def check_containers(spec: Object, around: PodContext, path: str, errors: FieldErrors) -> None:
    containers = spec.get("containers", ())
    if not containers:
        errors.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}.containers[{index}]"
        _check_container(container, around, where, errors)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if "lifecycle" in container:
            lifecycle = container["lifecycle"]
            check_lifecycle(lifecycle, around.grace_seconds, around.os, f"{where}.lifecycle", errors)
        check_probes(container, around.grace_seconds, where, errors)
        _check_restart_rules(container, where, errors)
    _check_host_ports(containers, f"{path}.containers", errors)


def _check_container(container: Object, around: PodContext, path: str, errors: FieldErrors) -> None:
    """Check what all types of containers have in common."""
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        check_value(name, names.dns_label, f"{path}.name", errors)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGE_POLICIES:
        check_required_choice(policy, _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy", errors)
    if ports := container.get("ports"):
        _check_ports(ports, f"{path}.ports", errors)
    check_environment(container, path, errors)
    check_mounts(container, around.volumes, path, errors)
    policy = container.get("imagePullPolicy", "")
    if policy not in _PULL_POLICIES:
        check_required_choice(policy, _PULL_POLICIES, f"{path}.imagePullPolicy", errors)
    if resources := container.get("resources"):
        check_requirements(resources, f"{path}.resources", errors, claim_names=around.claim_names)
    if policies := container.get("resizePolicy"):
        _check_resize(policies, around.restart_policy, f"{path}.resizePolicy", errors)
    if security := container.get("securityContext"):
        check_container_security(security, around.host_users, f"{path}.securityContext", errors)


def _check_ports(ports: Sequence[Object], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        if name := port.get("name"):
            if messages := names.port_name(name):
                errors += [invalid(f"{path}[{index}].name", name, each) for each in messages]
            elif name in seen:
                errors.append(duplicate(f"{path}[{index}].name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            errors.append(required(f"{path}[{index}].containerPort"))
        elif not 0 < number < 65536:
            check_port(number, f"{path}[{index}].containerPort", errors)
        if port.get("hostPort"):
            check_port(port["hostPort"], f"{path}[{index}].hostPort", errors)
        protocol = port.get("protocol", "")
        if protocol not in _PROTOCOLS:
            check_required_choice(protocol, _PROTOCOLS, f"{path}[{index}].protocol", errors)


def _check_host_ports(containers: Sequence[Object], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
            seen.add(key)


def _check_resize(policies: Sequence[Object], restart_policy: str, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        check_required_choice(resource, ("cpu", "memory"), path, errors)
        check_required_choice(restart, ("NotRequired", "RestartContainer"), path, errors)
        if restart_policy == "Never" and restart != "NotRequired":
            message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, message))


def _check_restart_rules(container: Object, path: str, errors: FieldErrors) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None:
        if not rules:
            return
        message = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", message))
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > _RESTART_RULES_MAX:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), _RESTART_RULES_MAX))
    for index, rule in enumerate(rules):
        _check_restart_rule(rule, f"{path}.restartPolicyRules[{index}]", errors)


def _check_restart_rule(rule: Object, path: str, errors: FieldErrors) -> None:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    if action not in _RESTART_ACTIONS:
        errors.append(not_supported(f"{path}.action", action, _RESTART_ACTIONS))
    if codes is None:
        errors.append(required(f"{path}.exitCodes", "must be specified"))
        return
    if codes.get("operator", "") not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn")))
    if len(codes.get("values", ())) > _EXIT_CODES_MAX:
        errors.append(too_many(f"{path}.exitCodes.values", len(codes["values"]), _EXIT_CODES_MAX))


def check_init_containers(spec: Object, around: PodContext, path: str, errors: FieldErrors) -> None:
    """Check init containers; with `restartPolicy: Always` they are sidecars and keep running."""
    seen = {container.get("name", "") for container in spec.get("containers", ())}
    for index, container in enumerate(spec.get("initContainers", ())):
        where = f"{path}.initContainers[{index}]"
        _check_container(container, around, where, errors)
        _check_init_restart(container, where, errors)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        _check_host_ports((container,), f"{path}.initContainers", errors)
        if is_sidecar(container):
            if "lifecycle" in container:
                lifecycle = container["lifecycle"]
                check_lifecycle(lifecycle, around.grace_seconds, around.os, f"{where}.lifecycle", errors)
            check_probes(container, around.grace_seconds, where, errors)
        else:
            _check_no_sidecar(container, where, errors)


def _check_init_restart(container: Object, path: str, errors: FieldErrors) -> None:
    if "restartPolicy" in container:
        _check_restart_rules(container, path, errors)
    elif container.get("restartPolicyRules"):
        message = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", message))


def _check_no_sidecar(container: Object, path: str, errors: FieldErrors) -> None:
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            errors.append(forbidden(f"{path}.{field}", _FOR_SIDECARS))
    for index, policy in enumerate(container.get("resizePolicy", ())):
        if policy.get("restartPolicy") == "RestartContainer":
            message = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            where = f"{path}.resizePolicy[{index}].restartPolicy"
            errors.append(invalid(where, policy["restartPolicy"], message))


def check_ephemeral_containers(spec: Object, around: PodContext, path: str, errors: FieldErrors) -> None:
    """Check ephemeral (debug) containers: they have no ports, probes or resources."""
    others = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in spec.get(field, ())
    }
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        where = f"{path}.ephemeralContainers[{index}]"
        _check_container(container, around, where, errors)
        check_image_spacing(container, where, errors)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{where}.targetContainerName", target))
        _check_only_ephemeral(container, where, errors)


def _check_only_ephemeral(container: Object, path: str, errors: FieldErrors) -> None:
    message = "cannot be set for an Ephemeral Container"
    for field in _NEVER_EPHEMERAL:
        if container.get(field):
            errors.append(forbidden(f"{path}.{field}", message))
    for index, mount in enumerate(container.get("volumeMounts", ())):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                errors.append(forbidden(f"{path}.volumeMounts[{index}].{field}", message))


def check_image_spacing(container: Object, path: str, errors: FieldErrors) -> None:
    image = container.get("image", "")
    if image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
