"""The node's charges: exact over restarts, kills and reboots."""

from pathlib import Path

from alcove.agent.metering import charges as files
from alcove.agent.metering.charges import MeteredPod, NodeCharges
from alcove.api.usage import UsageAmounts, hour_of

NOW = 1_800_000_000
HOUR = hour_of(NOW)


def amounts(charges: NodeCharges, tenant: str = "red") -> UsageAmounts:
    total = UsageAmounts()
    for tenants in charges.state.hours.values():
        total.add(tenants.get(tenant, UsageAmounts()))
    return total


def charge_cpu(charges: NodeCharges, value: int, key: str = "cpu/red/1") -> None:
    charges.charge_counter(key, "red", (value,), ("cpu_used_nanoseconds",), NOW, NOW)


def opened(path: Path, boot: str = "boot-1") -> NodeCharges:
    return NodeCharges.open(path, boot)


def known(path: Path) -> NodeCharges:
    """A charges of a node that has run before."""
    charges = opened(path)
    charges.is_new = False
    return charges


def test_a_counter_is_charged_from_zero_and_then_by_what_was_added(tmp_path: Path) -> None:
    charges = known(tmp_path / "usage.json")
    for value in (100, 100, 250):
        charge_cpu(charges, value)
    assert amounts(charges).cpu_used_nanoseconds == 250


def test_a_restart_charges_what_was_counted_meanwhile_once(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    charges = known(path)
    charge_cpu(charges, 100)
    files.save(path, charges.encoded())
    assert path.stat().st_mode & 0o777 == 0o600
    charge_cpu(charges, 150)  # Not saved: the agent is killed.
    again = opened(path)
    charge_cpu(again, 180)
    assert amounts(again).cpu_used_nanoseconds == 180


def test_counters_begin_anew_with_another_key_or_boot(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    charges = known(path)
    charge_cpu(charges, 100)
    charge_cpu(charges, 30, "cpu/red/2")
    files.save(path, charges.encoded())
    rebooted = opened(path, "boot-2")
    charge_cpu(rebooted, 5)
    assert amounts(rebooted).cpu_used_nanoseconds == 135


def test_a_node_that_lost_its_file_does_not_charge_all_again(tmp_path: Path) -> None:
    charges = opened(tmp_path / "usage.json")
    charge_cpu(charges, 1_000)
    charge_cpu(charges, 1_200)
    assert amounts(charges).cpu_used_nanoseconds == 200


def test_a_damaged_file_is_a_lost_one(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    path.write_bytes(b"{broken")
    assert opened(path).is_new


def test_requests_are_charged_by_the_second_until_the_end(tmp_path: Path) -> None:
    charges = known(tmp_path / "usage.json")
    charges.pod_started("p", MeteredPod("red", "/g", 500, 1 << 20, NOW), NOW)
    charges.charge_pods(NOW + 60)
    # Its requests grow, by a resize; a pod that is started again is the same.
    charges.pod_started("p", MeteredPod("red", "/g", 1_000, 1 << 20, NOW + 90), NOW + 90)
    charges.pod_ended("p", NOW + 100)
    charges.pod_ended("p", NOW + 200)
    used = amounts(charges)
    assert (used.pods_started, used.pod_seconds) == (1, 101)
    assert used.cpu_requested_nanoseconds == (90 * 500 + 11 * 1_000) * 1_000_000
    assert used.memory_requested_byte_seconds == 101 << 20


def test_a_pod_between_two_readings_counts(tmp_path: Path) -> None:
    charges = known(tmp_path / "usage.json")
    charges.pod_started("p", MeteredPod("red", "/g", 100, 1, NOW), NOW)
    charges.pod_ended("p", NOW)
    assert (amounts(charges).pods_started, amounts(charges).pod_seconds) == (1, 1)
