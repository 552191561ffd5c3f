"""Real nodes: namespaces on an underlay bridge, each with a data plane. Needs root and BPF; else skipped."""

from collections.abc import Iterator

import pytest

from alcove.testing.nodes import Lab, lacking

WHY = lacking()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/dataplane" in str(item.path):
            item.add_marker(pytest.mark.root)
            if WHY:
                item.add_marker(pytest.mark.skip(reason=WHY))


@pytest.fixture
def one_node() -> Iterator[Lab]:
    with Lab(1) as lab:
        yield lab


@pytest.fixture
def two_nodes() -> Iterator[Lab]:
    with Lab(2) as lab:
        yield lab


@pytest.fixture
def three_nodes() -> Iterator[Lab]:
    with Lab(3) as lab:
        yield lab
