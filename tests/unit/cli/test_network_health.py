"""What `alcove network show` says of a network's traffic and services."""

from collections import Counter

from alcove.api.objects import Object
from alcove.cli.network_health import NetworkHealth, backends
from alcove.cli.top_networks import NetworkLoad


def service(name: str) -> Object:
    return {"metadata": {"namespace": "shop", "name": name}}


def endpoints(name: str, **ready: bool | None) -> Object:
    found = [{"addresses": [each], "conditions": {"ready": state}} for each, state in ready.items()]
    labels = {"kubernetes.io/service-name": name}
    return {"metadata": {"namespace": "shop", "name": f"{name}-1", "labels": labels}, "endpoints": found}


def test_backends_are_counted_once_over_all_slices() -> None:
    slices = [endpoints("db", a=True, b=False), endpoints("db", a=True, c=None), endpoints("gone", a=True)]
    found = backends([service("db"), service("empty")], slices)
    assert found == {("shop", "db"): "2/3", ("shop", "empty"): "0/0"}
    dns = {"name": "kube-dns-own", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns-own"}}
    own = {"metadata": dns, "spec": {"network": "own"}}
    assert backends([own], []) == {("kube-system", "kube-dns-own"): "nodes"}


def test_rates_are_of_the_time_in_which_they_were_measured() -> None:
    load = NetworkLoad(3, 4_000, 20, Counter(PolicyIngress=5, NoRoute=1))
    shown = NetworkHealth(load, 2.0, []).facts()
    assert shown == {
        "Connections": 3, "Bytes/s": 2_000, "Packets/s": 10, "Drops/s": "3.0 (PolicyIngress)",
    }  # fmt: skip
    assert NetworkHealth(NetworkLoad(), 1.0, []).facts()["Drops/s"] == "0.0"
