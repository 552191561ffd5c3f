"""Ingresses as they are written, and as they are read."""

from typing import Any

from alcove.network.ingress import wanted
from alcove.network.ingress.wanted import Backend, Certificate, PathType, Rule


def written(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec}


def path(text: str, kind: str, service: str, **port: Any) -> dict[str, Any]:
    return {"path": text, "pathType": kind, "backend": {"service": {"name": service, "port": port}}}


def test_everything_is_read() -> None:
    paths = [path("/a", "Exact", "a", number=80), path("/b", "Prefix", "b", name="http")]
    paths += [path("", "ImplementationSpecific", "c", number=81)]
    found = wanted.read(
        written(
            rules=[{"host": "Shop.Example", "http": {"paths": paths}}, {"host": "bare.example"}],
            defaultBackend={"service": {"name": "d", "port": {"number": 82}}},
            tls=[{"hosts": ["Shop.Example", "other.example"], "secretName": "cert"}, {"hosts": ["x"]}],
        )
    )
    assert found.rules == (
        Rule("shop.example", "/a", PathType.EXACT, Backend("a", 80)),
        Rule("shop.example", "/b", PathType.PREFIX, Backend("b", "http")),
        Rule("shop.example", "/", PathType.PREFIX, Backend("c", 81)),
    )
    assert found.fallback == Backend("d", 82)
    assert found.certificates == (Certificate("cert", ("shop.example", "other.example")),)
    assert found.hosts == ("shop.example", "other.example")
    assert found.network == "default"


def test_what_is_no_service_leads_nowhere() -> None:
    backend = {"resource": {"kind": "Bucket", "name": "b"}}
    found = wanted.read(
        written(rules=[{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}])
    )
    assert found.rules == ()


def test_the_class_is_the_field_or_the_annotation() -> None:
    assert wanted.class_of(written(ingressClassName="alcove")) == "alcove"
    old = written()
    old["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "alcove"}
    assert wanted.class_of(old) == "alcove"
    assert wanted.class_of(written()) == ""


def test_classes_that_are_ours() -> None:
    def class_(name: str, controller: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"controller": controller}}

    assert wanted.served_classes([]) == {"alcove"}
    assert wanted.served_classes([class_("web", "alcove.io/ingress")]) == {"alcove", "web"}
    assert wanted.served_classes([class_("alcove", "k8s.io/nginx")]) == frozenset()
