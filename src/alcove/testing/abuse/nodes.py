"""Abuse of nodes and controllers: objects that make them work, and pods that run wild."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket

from alcove.dataplane import namespaces
from alcove.testing.abuse import pods
from alcove.testing.abuse.attacker import ADMISSION, CORE, Attacker
from alcove.testing.probes import opened


async def service_churn(attacker: Attacker) -> None:
    """Services, endpoints and ingresses that come and go."""
    ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"

    async def change(number: int) -> None:
        kind, name = "service_churn", f"s{number}"
        ports = [{"name": f"p{port}", "port": port} for port in range(1, 101)]
        spec = {"ports": ports, "selector": {"app": "x"}}
        if number % 8 == 0:
            spec = {**spec, "type": "NodePort", "ports": ports[:4]}
        service = {"metadata": {"name": name}, "spec": spec}
        await attacker.send(kind, "POST", f"{CORE}/services", service)
        backend = {"service": {"name": name, "port": {"number": 1}}}
        paths = [{"path": f"/{each}", "pathType": "Prefix", "backend": backend} for each in range(20)]
        rule = {"host": f"h{number}.example.org", "http": {"paths": paths}}
        await attacker.send(kind, "POST", ingresses, {"metadata": {"name": name}, "spec": {"rules": [rule]}})
        if number > 20:
            for each in (f"{ingresses}/s{number - 20}", f"{CORE}/services/s{number - 20}"):
                await attacker.send(kind, "DELETE", each)

    await attacker.repeat(change)


async def giant_binds(attacker: Attacker) -> None:
    """Pods that name their node and request more than it has."""

    async def bind(number: int) -> None:
        wanted = pods.giant(f"giant-{number}", attacker.target.node)
        await attacker.send("giant_binds", "POST", f"{CORE}/pods", wanted)
        await attacker.send("giant_binds", "DELETE", f"{CORE}/pods/giant-{number - 20}?gracePeriodSeconds=0")
        await asyncio.sleep(0.2)

    await attacker.repeat(bind, 1)


async def hostile_statuses(attacker: Attacker) -> None:
    """Container names that are paths, in the status of a pod, and requests that make the node use them."""
    kind = "hostile_statuses"
    await attacker.send(kind, "POST", f"{CORE}/pods", pods.sleeping("hostile", attacker.target.node))

    async def claim(_: int) -> None:
        name = attacker.chance.choice(pods.HOSTILE)
        entry = {"name": name, "image": name, "imageID": name, "containerID": f"gvisor://{name}"}
        status = {"containerStatuses": [{**entry, "ready": True, "restartCount": 0}]}
        await attacker.send(kind, "PATCH", f"{CORE}/pods/hostile/status", {"status": status})
        await attacker.send(kind, "GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
        await asyncio.sleep(0.1)

    await attacker.repeat(claim, 1)


async def tarpit_webhook(attacker: Attacker) -> None:
    """A webhook that accepts connections and never answers."""
    kind = "tarpit_webhook"
    await attacker.send(kind, "POST", f"{CORE}/pods", pods.tarpit("tarpit", attacker.target.runtime_class))
    service = {"ports": [{"port": 443, "targetPort": 8443}], "selector": {"app": "tarpit"}}
    await attacker.send(kind, "POST", f"{CORE}/services", {"metadata": {"name": "tarpit"}, "spec": service})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["serviceaccounts"]}
    hook = {
        "name": "tarpit.example.org",
        "clientConfig": {"service": {"namespace": "default", "name": "tarpit"}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        "failurePolicy": "Ignore",
    }
    made = {"metadata": {"name": "tarpit"}, "webhooks": [hook]}
    await attacker.send(kind, "POST", f"{ADMISSION}/validatingwebhookconfigurations", made)
    await attacker.repeat(
        lambda number: attacker.send(
            kind, "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": f"a{number}"}}
        ),
        32,
    )


async def abusive_pods(attacker: Attacker) -> None:
    """Pods that fork, write logs, fill volumes, grow their node's files and burn in probes."""
    for name, wanted in pods.BURNING.items():
        made = pods.named(name, wanted, attacker.target.runtime_class)
        await attacker.send(f"pods {name}", "POST", f"{CORE}/pods", made)
    await asyncio.Event().wait()


async def dns_flood(attacker: Attacker) -> None:
    """Questions from a pod as fast as it can send, of names inside and outside."""
    namespace = namespaces.open_named(attacker.target.namespace)
    assert namespace is not None, attacker.target.namespace
    sock = opened(namespace, socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.connect((attacker.target.dns, 53))
    names = [b"\x01a\x07example\x03org\x00", b"\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00"]
    for number in itertools.count():
        for each in range(50):
            head = (number * 50 + each & 0xFFFF).to_bytes(2, "big") + b"\x01\x00\x00\x01" + bytes(6)
            with contextlib.suppress(OSError):
                sock.send(head + names[each % 2] + b"\x00\x01\x00\x01")
            with contextlib.suppress(OSError):
                sock.recv(4096)
        attacker.outcomes["dns_flood sent"] += 50
        await asyncio.sleep(0.002)
