"""One cluster with an attacker and a quiet tenant for all tests of this folder."""

from collections.abc import Iterator

import pytest

from alcove.testing.attacks import AttackedCluster, attacked_cluster


@pytest.fixture(scope="session")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedCluster]:
    with attacked_cluster(tmp_path_factory.mktemp("attacks")) as running:
        yield running
