"""One cluster with an attacker and a quiet tenant for the tests of a file."""

from collections.abc import Iterator

import pytest

from alcove.testing.attacks import AttackedCluster, attacked_cluster


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedCluster]:
    with attacked_cluster(tmp_path_factory.mktemp("attacks")) as running:
        yield running
