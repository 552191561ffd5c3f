"""Parsing of Ingress objects."""

from typing import Any

from alcove.network.ingress import ingress_spec
from alcove.network.ingress.ingress_spec import IngressBackend, IngressCertificate, IngressRule, PathType


def written(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec}


def path(text: str, kind: str, service: str, **port: Any) -> dict[str, Any]:
    return {"path": text, "pathType": kind, "backend": {"service": {"name": service, "port": port}}}


def test_everything_is_read() -> None:
    paths = [path("/a", "Exact", "a", number=80), path("/b", "Prefix", "b", name="http")]
    paths += [path("", "ImplementationSpecific", "c", number=81)]
    found = ingress_spec.read(
        written(
            rules=[{"host": "Shop.Example", "http": {"paths": paths}}, {"host": "bare.example"}],
            defaultBackend={"service": {"name": "d", "port": {"number": 82}}},
            tls=[{"hosts": ["Shop.Example", "other.example"], "secretName": "cert"}, {"hosts": ["x"]}],
        )
    )
    assert found.rules == (
        IngressRule("shop.example", "/a", PathType.EXACT, IngressBackend("a", 80)),
        IngressRule("shop.example", "/b", PathType.PREFIX, IngressBackend("b", "http")),
        IngressRule("shop.example", "/", PathType.PREFIX, IngressBackend("c", 81)),
    )
    assert found.fallback == IngressBackend("d", 82)
    assert found.certificates == (IngressCertificate("cert", ("shop.example", "other.example")),)
    assert found.hosts == ("shop.example", "other.example")
    assert found.network == "default"


def test_what_is_no_service_leads_nowhere() -> None:
    backend = {"resource": {"kind": "Bucket", "name": "b"}}
    found = ingress_spec.read(
        written(rules=[{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}])
    )
    [rule] = found.rules
    assert rule.backend == IngressBackend("", 0), "not a less specific path's"


def test_the_class_is_the_field_or_the_annotation() -> None:
    assert ingress_spec.class_of(written(ingressClassName="alcove")) == "alcove"
    old = written()
    old["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "alcove"}
    assert ingress_spec.class_of(old) == "alcove"
    assert ingress_spec.class_of(written()) == ""


def test_classes_that_are_ours() -> None:
    def class_(name: str, controller: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"controller": controller}}

    assert ingress_spec.served_classes([]) == {"alcove"}
    assert ingress_spec.served_classes([class_("web", "alcove.io/ingress")]) == {"alcove", "web"}
    assert ingress_spec.served_classes([class_("alcove", "k8s.io/nginx")]) == frozenset()
