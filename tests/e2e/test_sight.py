"""Two tenants on one node: flows, drops, events, traces, captures and usage by their own names, and not the other's."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.dataplane.bpf import Map
from alcove.dataplane.desired import endpoint_key
from alcove.dataplane.maps import ENDPOINT, ENDPOINT_KEY, MapName
from alcove.processes import down
from alcove.processes.machine import supervisor_state
from alcove.processes.machine.cluster import load
from alcove.testing.claims import free_port
from alcove.testing.machine import lacking
from alcove.testing.server import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
IMAGE = ("--image=alcove/busybox:latest", "--image-pull-policy=Never")
TENANTS = ("shop", "bank")
NODE = "node-1"
NETWORK_LABEL = "arktos.futurewei.com/network"
NETWORK = {
    "apiVersion": "arktos.futurewei.com/v1",
    "kind": "Network",
    "metadata": {"name": "own"},
    "spec": {"type": "vpc", "ip": "10.9.0.0", "prefix": 16},
}
"""Both tenants have the same addresses."""
SERVES = "mkdir /tmp/www; echo hello >/tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
ONLY_WEB = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "only-web"},
    "spec": {
        "podSelector": {"matchLabels": {"run": "db"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"run": "web"}}}]}],
    },
}


class Person:
    """One who has a kubeconfig, kubectl and alcove."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = (
            [sys.executable, "-m", "alcove.processes.main", *words[1:]] if words[0] == "alcove" else [*words]
        )
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=400, env=env)

    def must(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, name: str, script: str = "sleep 10000") -> None:
        labels = f"--labels=run={name},{NETWORK_LABEL}=own"
        self.must("kubectl", "run", name, *IMAGE, labels, "--command", "--", "sh", "-c", script)

    def flows(self, *words: str) -> list[Object]:
        return list(json.loads(self.must("alcove", *words, "-o", "json"))["items"])


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Person]]:
    """Ring0, and two tenants with pods `db`, `web` and `other`, and a service `db`."""
    data = tmp_path_factory.mktemp("sight") / "state"
    ring0 = Person(data / "admin.kubeconfig")
    try:
        options = ("--data", str(data), "--port", str(free_port()), "--usage-interval", "2")
        ring0.must("alcove", "up", "--no-demo", *options)
        everybody = {"ring0": ring0}
        for tenant in TENANTS:
            ring0.must("alcove", "tenant", "create", tenant)
            path = data / f"{tenant}.kubeconfig"
            ring0.must("alcove", "tenant", "kubeconfig", tenant, "--output", str(path))
            everybody[tenant] = person = Person(path)
            person.must("kubectl", "apply", "-f", "-", stdin=json.dumps(NETWORK))
            for name, script in (("db", SERVES), ("web", "sleep 10000"), ("other", "sleep 10000")):
                person.start(name, script)
            person.must("kubectl", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=300s")
            labels = f"--labels={NETWORK_LABEL}=own"
            person.must("kubectl", "expose", "pod", "db", "--port=80", "--target-port=8080", labels)
        yield everybody
    finally:
        down.destroy(data)


def fetch(person: Person, pod: str, host: str, port: int) -> bool:
    script = f"nc -w 2 {host} {port} </dev/null"
    return person.run("kubectl", "exec", pod, "--", "sh", "-c", script).returncode == 0


def address_of(person: Person, pod: str) -> str:
    return person.must("kubectl", "get", "pod", pod, "-o", "jsonpath={.status.podIP}")


def test_both_tenants_see_their_own_flows_and_services(people: dict[str, Person]) -> None:
    for tenant in TENANTS:
        wait_until(lambda tenant=tenant: fetch(people[tenant], "web", "db", 80), 60.0)
    for tenant in TENANTS:
        flow = people[tenant].flows("flows", "--pod", "web", "--to", "db:80")[0]
        assert (flow["source"]["name"], flow["service"]["name"]) == ("web", "db")
        assert (flow["destination"]["name"], flow["destination"]["port"]) == ("db", 8080)
        assert (flow["metadata"]["tenant"], flow["verdict"], flow["node"]) == (tenant, "forwarded", NODE)
        assert flow["packetsSent"] >= 3 and flow["bytesReceived"] > 0
    assert {each["metadata"]["tenant"] for each in people["ring0"].flows("flows")} >= set(TENANTS)
    for verb in ("flows", "drops"):
        assert people["shop"].run("alcove", verb, "--tenant", "bank").returncode == 6


def test_a_wrong_policy_is_found_by_its_name(people: dict[str, Person]) -> None:
    shop, bank = people["shop"], people["bank"]
    address = address_of(shop, "db")
    assert fetch(shop, "other", address, 8080)
    shop.must("kubectl", "apply", "-f", "-", stdin=json.dumps(ONLY_WEB))
    wait_until(lambda: not fetch(shop, "other", address, 8080), 60.0)
    assert fetch(bank, "other", address_of(bank, "db"), 8080), "the other tenant has no policy"
    drops = wait_until(lambda: shop.flows("drops", "--to", "db"), 60.0)
    message = (
        f"ingress from {address_of(shop, 'other')} to {address}:8080 denied by NetworkPolicy default/only-web"
    )
    assert drops[0]["message"] == message
    assert not bank.flows("drops", "--to", "db")
    wait_until(lambda: message in shop.must("kubectl", "describe", "pod", "db"), 60.0)
    trace = json.loads(shop.must("alcove", "trace", "other", "--to", "db", "--port", "8080", "-o", "json"))
    assert trace["verdict"] == "dropped" and trace["difference"] == ""
    assert [step["step"] for step in trace["steps"] if not step["passes"]] == ["ingress policy"]
    assert trace["flows"][0]["verdict"] == trace["kernel"]["verdict"] == "dropped"
    assert "default/only-web" in trace["kernel"]["message"]
    assert bank.run("alcove", "trace", "other", "--to", "db", "--tenant", "shop").returncode == 6


def test_a_trace_says_where_the_kernel_differs(people: dict[str, Person]) -> None:
    """The policy is gone, the last packets were dropped by it: the objects say otherwise."""
    shop = people["shop"]
    shop.must("kubectl", "delete", "networkpolicy", "only-web")
    words = ("alcove", "trace", "other", "--to", "db", "--port", "8080", "-o", "json")
    trace = json.loads(shop.must(*words))
    assert trace["verdict"] == "forwarded"
    assert trace["difference"].startswith("the objects say forwarded, but ")
    wait_until(lambda: fetch(shop, "other", "db", 80), 60.0)
    wait_until(lambda: json.loads(shop.must(*words))["difference"] == "", 60.0)


def endpoints_map(people: dict[str, Person]) -> Map:
    """The node's own map of endpoints."""
    cluster = load(people["ring0"].kubeconfig.parent)
    assert cluster is not None
    folder = cluster.bpf / f"alcove-{cluster.node(1).instance}"
    [path] = folder.glob(f"maps-*/{MapName.ENDPOINTS.value}")
    return Map.pinned(path, ENDPOINT_KEY.size, ENDPOINT.size)


def test_a_trace_says_that_an_entry_is_missing_in_the_kernel(people: dict[str, Person]) -> None:
    """It is taken out by hand: the objects do not know."""
    shop, ring0 = people["shop"], people["ring0"]
    vpc = shop.must("kubectl", "get", "network", "own", "-o", "jsonpath={.status.vpc}")
    vni = int(ring0.must("kubectl", "get", "vpcs", vpc, "-o", "jsonpath={.spec.vni}"))
    key = endpoint_key(vni, ip_address(address_of(shop, "db")))
    words = ("alcove", "trace", "other", "--to", "db", "--port", "8080", "-o", "json")

    def difference() -> str:
        entries.delete(key)  # Again if the node has just put it back with another change.
        trace = json.loads(shop.must(*words))
        assert trace["verdict"] == "forwarded"
        return str(trace["difference"])

    with closing(endpoints_map(people)) as entries:
        taken = entries.get(key)
        assert taken is not None
        try:
            told = wait_until(difference, 60.0)
        finally:
            entries.put(key, taken)
    assert told == f"the objects say forwarded, but the kernel of {NODE} does not"
    assert json.loads(shop.must(*words))["difference"] == ""


def test_a_real_packet_is_followed_to_the_backend_of_a_service(people: dict[str, Person]) -> None:
    shop = people["shop"]
    words = ("alcove", "trace", "web", "--to", "db.default.svc.cluster.local", "--live")
    trace = json.loads(shop.must(*words, "-o", "json"))
    assert trace["live"]["reply"] == "accepted"
    dialed = shop.must("kubectl", "get", "service", "db", "-o", "jsonpath={.spec.clusterIP}")
    assert trace["dns"]["addresses"] == [dialed] and trace["difference"] == ""
    [flow] = trace["live"]["flows"]
    assert (flow["service"]["name"], flow["destination"]["name"]) == ("db", "db")
    assert "\nlive " in shop.must(*words)


def test_policies_that_are_proposed_allow_what_was_seen_and_no_more(people: dict[str, Person]) -> None:
    shop = people["shop"]
    proposed = json.loads(
        shop.must("alcove", "policy", "propose", "--from-flows", "--since", "1h", "-o", "json")
    )
    names = {each["metadata"]["name"] for each in proposed["items"]}
    assert {"web-seen", "db-seen"} <= names
    shop.start("late")
    shop.must("kubectl", "wait", "--for=condition=Ready", "pod/late", "--timeout=300s")
    wait_until(lambda: fetch(shop, "late", "db", 80), 60.0)
    shop.must("kubectl", "apply", "-f", "-", stdin=json.dumps(proposed))
    try:
        assert shop.must("alcove", "policy", "check") == "no problems found\n"
        wait_until(lambda: not fetch(shop, "late", "db", 80), 60.0)
        assert fetch(shop, "web", "db", 80)
    finally:
        shop.must("kubectl", "delete", "networkpolicy", "--all")


def test_a_capture_is_of_ones_own_pod(people: dict[str, Person], tmp_path: Path) -> None:
    shop, bank = people["shop"], people["bank"]
    file, address = tmp_path / "web.pcapng", address_of(shop, "db")
    ended = threading.Event()

    def talk() -> None:
        while not ended.is_set():
            fetch(shop, "web", address, 8080)

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        shop.must("alcove", "capture", "web", "-o", str(file), "--seconds", "60", "--bytes", "2000")
    finally:
        ended.set()
        talking.join()
    content = file.read_bytes()
    assert content[:4] == bytes.fromhex("0a0d0d0a")
    assert (8080).to_bytes(2, "big") in content and ip_address(address).packed in content
    refused = bank.run("alcove", "capture", "web", "-o", str(tmp_path / "no"), "--tenant", "shop")
    assert refused.returncode == 6


def used(person: Person, *words: str) -> dict[str, Object]:
    return {each["metadata"]["tenant"]: each["amounts"] for each in person.flows("usage", *words)}


def test_usage_is_ones_own_and_ring0_sees_all(people: dict[str, Person]) -> None:
    def complete() -> dict[str, Object] | None:
        """What ring0 sees, once it has traffic of both."""
        for tenant in TENANTS:
            fetch(people[tenant], "web", "db", 80)
        seen = used(people["ring0"])
        return seen if all("networkOutBytes" in seen.get(tenant, {}) for tenant in TENANTS) else None

    assert wait_until(complete, 120.0)
    for tenant in TENANTS:
        own = used(people[tenant])
        assert set(own) == {tenant} and own[tenant]["networkOutBytes"] > 0
        assert own[tenant]["cpuUsedNanoseconds"] > 0 and own[tenant]["podsStarted"] >= 3
        assert own[tenant]["podSeconds"] > 0
    assert people["shop"].run("alcove", "usage", "--tenant", "bank").returncode == 6


def test_an_agent_that_is_killed_goes_on_with_its_counters(people: dict[str, Person]) -> None:
    shop, data = people["shop"], people["ring0"].kubeconfig.parent

    def by_port(flows: list[Object]) -> dict[int, int]:
        return {each["source"]["port"]: each["bytesSent"] for each in flows if each["verdict"] == "forwarded"}

    def flows() -> dict[int, int]:
        return by_port(shop.flows("flows", "--pod", "web", "--to", "db:80"))

    fetch(shop, "web", "db", 80)
    seen, before, pid = flows(), used(shop)["shop"], supervisor_state.states(data)[NODE].pid
    assert seen and pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: supervisor_state.states(data)[NODE].pid not in (pid, None), 60.0)
    after = wait_until(flows, 120.0)
    assert all(after[port] >= sent for port, sent in seen.items())

    def grown() -> Object | None:
        fetch(shop, "web", "db", 80)
        amounts = used(shop)["shop"]
        return amounts if amounts["networkOutBytes"] > before["networkOutBytes"] else None

    amounts = wait_until(grown, 120.0)
    assert all(amounts[name] >= amount for name, amount in before.items())
    assert amounts["podsStarted"] == before["podsStarted"], "nothing is counted twice"
