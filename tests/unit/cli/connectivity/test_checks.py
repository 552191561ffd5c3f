"""Who must reach whom: decided from the world alone, asked by one script a pod, read from what it says."""

import subprocess

from alcove.cli.connectivity.checks import (
    SERVER_HELLO,
    Check,
    CheckKind,
    CheckResult,
    checks,
    pod_checks,
    results,
    script,
)
from alcove.cli.connectivity.topology import (
    CheckNetwork,
    CheckPod,
    build,
    network_manifest,
    pod_manifest,
    service_manifest,
)

CIDR = "10.77.0.0/24"
WORLD = build(("a", "b"), ("red", "blue"), CIDR, ("n1", "n2", "n3"))


def by_identity(identity: str) -> CheckPod:
    return next(pod for pod in WORLD.pods if pod.identity == identity)


def test_every_network_has_the_same_addresses_on_every_node() -> None:
    assert len(WORLD.networks) == 4 and WORLD.tenants == ("a", "b")
    spots = {
        (pod.tenant, pod.network): {
            (other.address, other.node)
            for other in WORLD.pods
            if other.tenant == pod.tenant and other.network == pod.network and other.is_backend
        }
        for pod in WORLD.pods
    }
    assert len({frozenset(each) for each in spots.values()}) == 1
    assert len(spots[("a", "red")]) == 3
    assert len(build(("a",), ("red",), CIDR, ("only",)).pods) == 3


def test_an_address_is_answered_by_the_own_networks_pod_or_by_nobody() -> None:
    source = by_identity("b/red/pod-1")
    found = {check.target: check.expected for check in pod_checks(source, WORLD.pods)}
    assert found == {
        "10.77.0.12": {"b/red/pod-2"},
        "10.77.0.13": {"b/red/pod-3"},
        "10.77.0.99": frozenset(),
    }
    own = {check.target: check.expected for check in pod_checks(by_identity("a/red/pod-1"), WORLD.pods)}
    assert own["10.77.0.99"] == {"a/red/lone"}


def test_every_pair_that_must_not_talk_is_tried() -> None:
    found = checks(WORLD, dict.fromkeys(WORLD.networks, "10.96.0.3"))
    silent = [check for check in found if not check.expected]
    # The lone pod's address, from every pod of the three other networks.
    assert len(silent) == 9
    assert {check.kind for check in found} == set(CheckKind) - {CheckKind.NODE}
    vips = [check for check in found if check.kind is CheckKind.VIP]
    assert len(vips) == len(WORLD.pods)
    assert vips[0].expected == {"a/red/pod-1", "a/red/pod-2", "a/red/pod-3"}


def test_no_pod_may_reach_the_nodes_own_servers() -> None:
    found = checks(WORLD, {}, [("10.250.1.11", 10250), ("10.250.1.12", 10250)])
    nodes = [check for check in found if check.kind is CheckKind.NODE]
    assert len(nodes) == 2 * len(WORLD.pods) and not any(check.expected for check in nodes)


def test_an_answer_of_another_tenants_pod_is_wrong() -> None:
    check = pod_checks(by_identity("b/red/pod-1"), WORLD.pods)[0]
    assert CheckResult(check, "b/red/pod-2").is_right
    assert not CheckResult(check, "a/red/pod-2").is_right
    assert not CheckResult(check, "").is_right
    silent = Check(check.source, CheckKind.POD, "10.77.0.99", 80, frozenset(), "")
    assert CheckResult(silent, "").is_right and not CheckResult(silent, "anything").is_right


def test_the_script_is_a_shells_and_its_answers_are_read_in_any_order() -> None:
    source = by_identity("a/red/pod-1")
    asked = [
        Check(source, CheckKind.POD, "127.0.0.1", 9, frozenset(), ""),
        Check(source, CheckKind.API, "127.0.0.1", 9, frozenset((SERVER_HELLO,)), ""),
    ]
    done = subprocess.run(["sh", "-n", "-c", script(asked)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = results(asked, "1 1603\nnoise\n\n0 a/red/pod-2\n")
    assert [result.answer for result in found] == ["a/red/pod-2", "1603"]
    assert [result.answer for result in results(asked, "")] == ["", ""]


def test_manifests_name_the_network_address_and_node() -> None:
    pod = pod_manifest(by_identity("a/blue/pod-2"))
    assert pod["spec"]["nics"] == [{"ip": "10.77.0.12"}]
    assert "n2" in str(pod["spec"]["affinity"])
    assert pod["metadata"]["labels"] == {"arktos.futurewei.com/network": "blue", "app": "web"}
    network = CheckNetwork("a", "blue", CIDR)
    spec = network_manifest(network)["spec"]
    assert (spec["ip"], spec["prefix"], spec["vpcID"]) == ("10.77.0.0", "24", "a-blue")
    assert service_manifest(network)["metadata"]["labels"] == {"arktos.futurewei.com/network": "blue"}
