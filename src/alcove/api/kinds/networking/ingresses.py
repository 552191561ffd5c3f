"""Ingresses and ingress classes: how traffic from outside reaches services."""

from alcove.api import addresses, names
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required, too_long
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import fill, named, named_required, one_of, unchanged
from alcove.api.objects import Object, annotations

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
CONTROLLER_LENGTH_MAX_BYTES = 250
_PATH_MUST_NOT_CONTAIN = ("//", "/./", "/../", "%2f", "%2F")
_PATH_MUST_NOT_END = ("/..", "/.")
_NOT_A_NAME = "must be a DNS name, not an IP address"


def validate_ingress(ingress: Object) -> list[FieldError]:
    spec = ingress.get("spec") or {}
    errors: list[FieldError] = []
    backend, rules = spec.get("defaultBackend"), spec.get("rules") or ()
    if not rules and backend is None:
        message = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", spec.get("rules"), message))
    if backend is not None:
        errors += _backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or ()):
        errors += _tls(tls, f"spec.tls[{index}]")
    if "ingressClassName" in spec:
        errors += named(spec["ingressClassName"], names.dns_subdomain, "spec.ingressClassName")
    return errors


def validate_new_ingress(ingress: Object) -> list[FieldError]:
    annotated = annotations(ingress).get(CLASS_ANNOTATION)
    chosen = (ingress.get("spec") or {}).get("ingressClassName")
    if annotated is None or chosen is None or annotated == chosen:
        return []
    message = "must match `ingressClassName` when both are specified"
    return [invalid(f"annotations.{CLASS_ANNOTATION}", annotated, message)]


def _host(host: str, path: str) -> list[FieldError]:
    check = names.wildcard_subdomain if "*" in host else names.dns_subdomain
    return named(host, check, path)


def _is_ip(text: str) -> bool:
    return addresses.is_ipv4(text) or addresses.is_ipv6(text)


def _rule(rule: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    host = rule.get("host", "")
    if host:
        if _is_ip(host):
            errors.append(invalid(f"{path}.host", host, _NOT_A_NAME))
        errors += _host(host, f"{path}.host")
    http = rule.get("http")
    if http is None:
        return errors
    if not http.get("paths"):
        errors.append(required(f"{path}.http.paths"))
    for index, each in enumerate(http.get("paths") or ()):
        errors += _path(each, f"{path}.http.paths[{index}]")
    return errors


def _path(entry: Object, path: str) -> list[FieldError]:
    kind, text = entry.get("pathType"), entry.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    if kind not in PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        errors += [
            invalid(f"{path}.path", text, f"must not contain '{part}'")
            for part in _PATH_MUST_NOT_CONTAIN
            if part in text
        ]
        errors += [
            invalid(f"{path}.path", text, f"cannot end with '{part}'")
            for part in _PATH_MUST_NOT_END
            if text.endswith(part)
        ]
    return errors + _backend(entry.get("backend") or {}, f"{path}.backend")


def _backend(backend: Object, path: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, f"{path}.resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    errors = named_required(service.get("name", ""), names.dns_label, f"{path}.service.name")
    port = service.get("port") or {}
    name, number = port.get("name", ""), port.get("number", 0)
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        errors += named(name, names.port_name, f"{path}.service.port.name")
    elif number:
        where = f"{path}.service.port.number"
        errors += [invalid(where, number, message) for message in names.port_number(number)]
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _reference(reference: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "apiGroup" in reference:
        errors += named(reference["apiGroup"], names.dns_subdomain, f"{path}.apiGroup")
    for field in ("kind", "name"):
        errors += named_required(reference.get(field, ""), names.path_segment, f"{path}.{field}")
    return errors


def _tls(tls: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, host in enumerate(tls.get("hosts") or ()):
        errors += _host(host, f"{path}.hosts[{index}]")
    secret = tls.get("secretName", "")
    return errors + (named(secret, names.dns_subdomain, f"{path}.secretName") if secret else [])


def validate_ingress_status(new: Object, _old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    for index, entry in enumerate(balancer.get("ingress") or ()):
        path = f"status.loadBalancer.ingress[{index}]"
        if entry.get("ip"):
            errors += addresses.ip_errors(f"{path}.ip", entry["ip"])
        host = entry.get("hostname", "")
        if host:
            errors += named(host, names.dns_subdomain, f"{path}.hostname")
            if _is_ip(host):
                errors.append(invalid(f"{path}.hostname", host, _NOT_A_NAME))
    return errors


def default_ingress_class(obj: Object) -> None:
    parameters = (obj.get("spec") or {}).get("parameters")
    if parameters is not None:
        fill(parameters, "scope", "Cluster")


def validate_ingress_class(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    controller = spec.get("controller", "")
    errors: list[FieldError] = []
    if len(controller.encode()) > CONTROLLER_LENGTH_MAX_BYTES:
        errors.append(too_long("spec.controller", CONTROLLER_LENGTH_MAX_BYTES))
    errors += _domain_prefixed_path(controller, "spec.controller")
    parameters = spec.get("parameters")
    return errors + (_parameters(parameters, "spec.parameters") if parameters is not None else [])


def _domain_prefixed_path(value: str, path: str) -> list[FieldError]:
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return named(host, names.dns_subdomain, path) + named(rest, names.http_path, path)


def _parameters(parameters: Object, path: str) -> list[FieldError]:
    errors = _reference(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if not scope:
        return [*errors, required(f"{path}.scope")]
    errors += one_of(scope, ("Cluster", "Namespace"), f"{path}.scope")
    if scope == "Namespace":
        if namespace is None:
            errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            errors += named(namespace, names.dns_label, f"{path}.namespace")
    if scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return errors


def validate_ingress_class_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "controller")


STRATEGIES: dict[str, Strategy] = {
    "ingresses": Strategy(
        validate=validate_ingress,
        validate_create=validate_new_ingress,
        validate_status=validate_ingress_status,
        has_status=True,
        counts_generation=True,
    ),
    "ingressclasses": Strategy(
        default=default_ingress_class,
        validate=validate_ingress_class,
        validate_update=validate_ingress_class_update,
        counts_generation=True,
    ),
}
