"""Names and addresses of clusters: each its own, whatever the number; and what is kept of one."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from alcove.processes.machine import cluster, cluster_numbers
from alcove.processes.machine.cluster import NODES_MAX, TOKENS, BadCluster, LocalCluster
from alcove.processes.machine.components import components


def made(data: Path, **more: object) -> LocalCluster:
    given: dict[str, object] = {"data": data, "name": "c", "number": 0, "port": 6443, **more}
    return LocalCluster(**given)  # type: ignore[arg-type]


def test_no_two_clusters_share_a_name_in_the_kernel(tmp_path: Path) -> None:
    every = [made(tmp_path, number=number) for number in range(TOKENS)]
    for name in ("token", "uplink", "underlay_namespace", "table", "run"):
        assert len({getattr(each, name) for each in every}) == TOKENS
    assert all(len(each.uplink) <= 15 and len(each.token) == 2 for each in every)


def test_nodes_have_instances_and_addresses_of_their_own(tmp_path: Path) -> None:
    full = made(tmp_path, nodes=NODES_MAX, number=TOKENS - 1)
    nodes = full.all_nodes()
    assert len({node.instance for node in nodes}) == len({node.address for node in nodes}) == NODES_MAX
    assert all(len(node.instance) <= 4 and node.instance.startswith(full.token) for node in nodes)
    assert all(node.address in full.underlay and node.address != full.gateway for node in nodes)
    # A prefix of one cluster's namespaces is no prefix of another's: they are swept by it.
    assert not any(node.namespace.startswith(f"alcove-{node.instance}-") for node in nodes)


def test_hollow_nodes_share_loopback_and_differ_in_ports(tmp_path: Path) -> None:
    nodes = made(tmp_path, nodes=3, hollow=True).all_nodes()
    assert {str(node.address) for node in nodes} == {"127.0.0.1"}
    assert [node.port for node in nodes] == [10250, 10251, 10252]
    other = made(tmp_path, nodes=NODES_MAX, hollow=True, number=255).all_nodes()
    assert len({node.port for node in (*nodes, *other)}) == 3 + NODES_MAX
    assert max(node.port for node in other) < 32768, "from there on ports are given to anybody"


def test_what_was_asked_is_kept_and_the_folder_may_move(tmp_path: Path) -> None:
    asked = made(tmp_path, nodes=3, listen=("192.0.2.1",), number=77)
    asked.save()
    assert cluster.load(tmp_path) == asked
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "cluster.json").rename(moved / "cluster.json")
    assert cluster.load(tmp_path) is None
    assert cluster.load(moved) == replace(asked, data=moved)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 3}'])
def test_a_damaged_file_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(BadCluster, match="damaged"):
        cluster.load(tmp_path)


def test_components_of_a_real_and_a_hollow_cluster(tmp_path: Path) -> None:
    real = {part.name: part for part in components(made(tmp_path, nodes=2))}
    assert list(real) == ["apiserver", "controllers", "scheduler", "node-1", "node-2"]
    assert "10.250.0.1" in real["apiserver"].arguments
    assert real["node-1"].namespace is not None and "--hollow" not in real["node-1"].arguments
    hollow = {part.name: part for part in components(made(tmp_path, hollow=True))}
    assert hollow["node-1"].namespace is None and "--hollow" in hollow["node-1"].arguments
    assert "--listen" not in hollow["apiserver"].arguments


def test_every_real_node_is_told_the_insecure_registries(tmp_path: Path) -> None:
    registries = ("10.250.0.1:5000", "registry.example")
    nodes = components(made(tmp_path, nodes=2, insecure_registries=registries))[3:]
    for node in nodes:
        options = [index for index, each in enumerate(node.arguments) if each == "--insecure-registry"]
        assert tuple(node.arguments[index + 1] for index in options) == registries


def test_one_interval_of_usage_is_for_nodes_and_controllers(tmp_path: Path) -> None:
    option = "--usage-interval"
    parts = {part.name: part.arguments for part in components(made(tmp_path, usage_interval_seconds=2))}
    for name in ("controllers", "node-1"):
        assert parts[name][parts[name].index(option) + 1] == "2"
    assert not any(option in part.arguments for part in components(made(tmp_path)))


class TestClaims:
    @pytest.fixture(autouse=True)
    def own_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        run = tmp_path / "run"
        monkeypatch.setattr(cluster, "RUN", run)
        monkeypatch.setattr(cluster_numbers, "RUN", run)
        monkeypatch.setattr(cluster_numbers, "routes", list)
        return run

    def cluster_in(self, folder: Path, number: int) -> LocalCluster:
        folder.mkdir(parents=True, exist_ok=True)
        asked = made(folder, number=number)
        asked.save()
        return asked

    def test_a_number_is_one_clusters_until_it_is_given_back(self, tmp_path: Path, own_run: Path) -> None:
        one = cluster_numbers.claim(self.cluster_in(tmp_path / "one", 5))
        assert one.number == 5
        assert cluster_numbers.claim(one) == one
        two = cluster_numbers.claim(self.cluster_in(tmp_path / "two", 5))
        assert two.number == 6
        two.save()
        assert cluster_numbers.others(one) == [two.token]
        assert [each.number for each in cluster_numbers.held_by(tmp_path / "two")] == [6]
        cluster_numbers.release(one)
        cluster_numbers.release(one)
        assert cluster_numbers.claim(self.cluster_in(tmp_path / "three", 5)).number == 5
        cluster_numbers.release(two)
        assert own_run.exists()

    def test_a_claim_whose_cluster_is_gone_counts_no_more(self, tmp_path: Path) -> None:
        one = cluster_numbers.claim(self.cluster_in(tmp_path / "one", 5))
        (one.data / "cluster.json").unlink()
        assert cluster_numbers.claim(self.cluster_in(tmp_path / "two", 5)).number == 5

    def test_a_kill_between_the_steps_of_claiming_does_no_harm(self, tmp_path: Path) -> None:
        asked = self.cluster_in(tmp_path / "one", 5)
        asked.run.mkdir(parents=True)
        assert cluster_numbers.claim(asked).number == 5

    def test_a_range_that_the_machine_uses_is_left_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = self.cluster_in(tmp_path / "one", 5)
        monkeypatch.setattr(cluster_numbers, "routes", lambda: [asked.underlay])
        assert cluster_numbers.claim(asked).number == 6
        monkeypatch.setattr(cluster_numbers, "routes", lambda: [cluster.RANGE])
        with pytest.raises(cluster_numbers.NoFreeNumber):
            cluster_numbers.claim(self.cluster_in(tmp_path / "two", 5))
