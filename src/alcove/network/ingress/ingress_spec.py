"""Parses an Ingress: its host names, the backends of its paths, and its certificates. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct

from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object

CLASS = "alcove"
CONTROLLER = "alcove.io/ingress"
"""An IngressClass of any name with this `spec.controller` is served."""
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
ANY = ""
"""The host of rules without one."""


class PathType(Enum):
    EXACT = "Exact"
    PREFIX = "Prefix"


class IngressBackend(Struct, frozen=True):
    """A port of a service in the Ingress' namespace, by its number or its name. The name of a backend that is no
    service is empty: nothing serves it."""

    service: str
    port: int | str


class IngressRule(Struct, frozen=True):
    host: str
    path: str
    path_type: PathType
    backend: IngressBackend


class IngressCertificate(Struct, frozen=True):
    """A secret for these hosts; for all hosts of the Ingress if `hosts` is empty."""

    secret: str
    hosts: tuple[str, ...]


class DesiredIngress(Struct, frozen=True):
    created: str
    """The creationTimestamp, which sorts by time."""
    uid: str
    namespace: str
    name: str
    network: str
    rules: tuple[IngressRule, ...]
    fallback: IngressBackend | None
    certificates: tuple[IngressCertificate, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The distinct names to be claimed."""
        named = (
            *(rule.host for rule in self.rules),
            *(host for each in self.certificates for host in each.hosts),
        )
        return tuple(dict.fromkeys(host for host in named if host != ANY))

    @property
    def age(self) -> tuple[str, str]:
        """The smaller, the older."""
        return self.created, self.uid


def served_classes(classes: Iterable[Object]) -> frozenset[str]:
    """Names of the classes that are served: `alcove`, unless the tenant's class of that name has another
    controller, and every class with our controller."""
    controllers = {objects.name(each): objects.get(each, "spec", "controller") for each in classes}
    controllers.setdefault(CLASS, CONTROLLER)
    return frozenset(name for name, controller in controllers.items() if controller == CONTROLLER)


def class_of(ingress: Object) -> str:
    chosen = objects.get(ingress, "spec", "ingressClassName")
    return str(chosen or objects.annotations(ingress).get(CLASS_ANNOTATION) or "")


def read(ingress: Object) -> DesiredIngress:
    spec, metadata = ingress.get("spec") or {}, ingress["metadata"]
    return DesiredIngress(
        created=metadata.get("creationTimestamp") or "",
        uid=metadata.get("uid") or "",
        namespace=objects.namespace(ingress),
        name=objects.name(ingress),
        network=network_of(ingress),
        rules=tuple(_rules(spec.get("rules") or ())),
        fallback=_backend(spec.get("defaultBackend")),
        certificates=tuple(_certificates(spec.get("tls") or ())),
    )


def _rules(rules: Iterable[Object]) -> Iterator[IngressRule]:
    for rule in rules:
        host = (rule.get("host") or ANY).lower()
        for path in objects.get(rule, "http", "paths", default=None) or ():
            backend = _backend(path.get("backend"))
            if backend is not None:
                exact = path.get("pathType") == "Exact"
                # ImplementationSpecific is treated as Prefix.
                kind = PathType.EXACT if exact else PathType.PREFIX
                yield IngressRule(host, path.get("path") or "/", kind, backend)


def _backend(backend: Object | None) -> IngressBackend | None:
    if not backend:
        return None
    service = backend.get("service")
    if not service:
        return IngressBackend("", 0)
    port = service.get("port") or {}
    return IngressBackend(service["name"], port.get("number") or port.get("name") or 0)


def _certificates(entries: Iterable[Object]) -> Iterator[IngressCertificate]:
    for each in entries:
        if each.get("secretName"):
            yield IngressCertificate(
                each["secretName"], tuple(host.lower() for host in each.get("hosts") or ())
            )
