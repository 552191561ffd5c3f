"""A machine whose power is cut in the middle of its work, and which is then started again: tenants, pods, their addresses
and what they have on their volumes are back; strangers that got the numbers of processes of before are left alone."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson
import pytest

from alcove.api import objects
from alcove.api.objects import Object
from alcove.cli.session import CliSession
from alcove.client.resources import SERVICE_ACCOUNTS, TENANTS
from alcove.testing import snapshot
from alcove.testing.cluster import condition
from alcove.testing.machine import SimulatedMachine, lacking
from alcove.testing.server import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
NAMES = ("red", "blue")
GONE_SECONDS_MAX = 90.0
"""As long as others' tests may take that run beside this one."""
WEB, CLIENT = "10.20.0.11", "10.20.0.12"
WORLD = """
apiVersion: arktos.futurewei.com/v1
kind: Network
metadata: {{name: own}}
spec: {{type: vpc, vpcID: {tenant}-own, ip: 10.20.0.0, prefix: 24}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: kept}}
spec: {{storageClassName: local, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 16Mi}}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, labels: {{arktos.futurewei.com/network: own}}}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}, arktos.futurewei.com/network: own}}}}
spec:
  restartPolicy: {restart}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: alcove/busybox:latest
    imagePullPolicy: Never
    command: [sh, -c, "{script}"]
"""
KEPT = """    volumeMounts: [{name: kept, mountPath: /kept}]
  volumes: [{name: kept, persistentVolumeClaim: {claimName: kept}}]
  nics: [{ip: 10.20.0.11}]
"""
NOTES = "test -f /kept/note || echo {tenant} $RANDOM >/kept/note; sync; exec httpd -f -p 8080 -h /kept"


def manifest(tenant: str) -> str:
    notes = NOTES.format(tenant=tenant)
    return (
        WORLD.format(tenant=tenant)
        + POD.format(name="web", restart="Always", script=notes)
        + KEPT
        + POD.format(name="client", restart="Always", script="exec sleep 1000")
        + f"  nics: [{{ip: {CLIENT}}}]\n"
        + POD.format(name="once", restart="Never", script="exec sleep 1000")
        + POD.format(name="done", restart="Never", script="exit 0")
    )


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SimulatedMachine]:
    with SimulatedMachine(tmp_path) as made:
        yield made


class Tenant:
    """What a tenant has, as its users see it."""

    def __init__(self, machine: SimulatedMachine, name: str) -> None:
        self.machine, self.name = machine, name

    def make(self, session: CliSession) -> None:
        session.create(TENANTS, {"metadata": {"name": self.name}})
        wait_until(lambda: session.find(SERVICE_ACCOUNTS, "default", self.name, "default"))
        self._kubectl("create", "-f", "-", stdin=manifest(self.name))

    def await_phases(self, once: str) -> None:
        wanted = {"web": "Running", "client": "Running", "once": once, "done": "Succeeded"}
        try:
            wait_until(lambda: self._phases() == wanted and self._is_ready(), 120)
        except AssertionError as error:
            raise AssertionError(self._kubectl("describe", "pods,pvc")) from error

    def addresses(self) -> dict[str, str]:
        """Of pods that run, and of the service."""
        service = orjson.loads(self._kubectl("get", "service", "web", "-o", "json"))
        found = self.pods()
        running = {name: objects.get(found[name], "status", "podIP") for name in ("web", "client")}
        return {**running, "service": service["spec"]["clusterIP"]}

    def uids(self) -> dict[str, str]:
        return {name: each["metadata"]["uid"] for name, each in self.pods().items()}

    def restarts(self) -> dict[str, int]:
        return {
            name: objects.get(each, "status", "containerStatuses")[0]["restartCount"]
            for name, each in self.pods().items()
        }

    def note(self, way: str) -> str:
        """What its client reads there."""
        ask = f"printf 'GET /note HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {way} | tail -n 1"
        return self._kubectl("exec", "client", "--", "sh", "-c", ask).strip()

    def await_note(self, way: str, note: str) -> None:
        wait_until(lambda: self.note(way) == note)

    def pods(self) -> dict[str, Object]:
        pods = orjson.loads(self._kubectl("get", "pods", "-o", "json"))
        return {each["metadata"]["name"]: each for each in pods["items"]}

    def _phases(self) -> dict[str, str]:
        return {name: objects.get(each, "status", "phase") for name, each in self.pods().items()}

    def _is_ready(self) -> bool:
        found = self.pods()
        return all(condition(found[name], "Ready") == "True" for name in ("web", "client"))

    def _kubectl(self, *words: str, stdin: str = "") -> str:
        return self.machine.kubectl(self.name, *words, stdin=stdin)


def test_everything_is_back_after_the_power_was_cut(machine: SimulatedMachine) -> None:
    before = snapshot.look(machine.mark)
    session = machine.up("--nodes", "2")
    tenants = [Tenant(machine, name) for name in NAMES]
    for tenant in tenants:
        tenant.make(session)
    for tenant in tenants:
        tenant.await_phases(once="Running")
    # A pod without a readiness probe is ready before its program listens.
    notes = [wait_until(partial(each.note, f"{WEB} 8080")) for each in tenants]
    had = [(each.addresses(), each.uids(), note) for each, note in zip(tenants, notes, strict=True)]
    for tenant, (addresses, _uids, note) in zip(tenants, had, strict=True):
        assert (addresses["web"], addresses["client"], note.split()[0]) == (WEB, CLIENT, tenant.name)

    dead = machine.cut_power()
    machine.boot()
    assert snapshot.left_since(before, machine.mark, GONE_SECONDS_MAX) == [], "it was no boot"
    # Some may have been given to others meanwhile.
    assert machine.give_numbers_away(dead) > len(dead) / 2

    machine.up()
    for tenant, (addresses, uids, note) in zip(tenants, had, strict=True):
        # Nobody saw how that one ended, and it must not be run again.
        tenant.await_phases(once="Failed")
        assert (tenant.addresses(), tenant.uids()) == (addresses, uids)
        assert tenant.restarts() == {"web": 1, "client": 1, "once": 0, "done": 0}
        for way in (f"{WEB} 8080", f"{addresses['service']} 80", "web.default.svc.cluster.local 80"):
            tenant.await_note(way, note)
    assert machine.harmed() == []

    machine.alcove("destroy", "--yes")
    assert machine.harmed() == []
    assert snapshot.left_since(before, machine.mark, GONE_SECONDS_MAX) == []
    assert not machine.data.exists()
