"""Nothing decays: after any mix of changes and failures, the machine has what the objects say, and nothing else.

    make soak MINUTES=60 SEED=7

The seed is printed. The same seed takes the same decisions as long as the cluster answers alike.
"""

import os
import random
import sys
import time
from pathlib import Path

import pytest

from alcove.testing import etcd
from alcove.testing.cluster import RealCluster, lacking
from alcove.testing.etcd import EtcdCluster
from alcove.testing.soak import Soak
from alcove.testing.soak_checks import faults_after, growing, left_on_machine, memory

MINUTES = float(os.environ.get("MINUTES", "0.5"))
SEED = int(os.environ.get("SEED", "1"))
STEPS = 25
SETTLE_SECONDS_MAX = 90.0
STORES = ["sqlite", "etcd"] if MINUTES > 2 else ["sqlite"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.timeout(60 * MINUTES * len(STORES) + 600),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]


@pytest.mark.parametrize("store", STORES)
def test_nothing_decays(tmp_path: Path, store: str) -> None:
    sys.stdout.write(f"SEED={SEED} MINUTES={MINUTES:g} store={store}\n")
    if store == "sqlite":
        soak(RealCluster(tmp_path / "cluster", 2))
        return
    if why := etcd.lacking():
        pytest.skip(why)
    with EtcdCluster(tmp_path / "etcd", 1) as running:
        soak(RealCluster(tmp_path / "cluster", 2, server_options=running.options()), running)


def soak(cluster: RealCluster, running: EtcdCluster | None = None) -> None:
    samples: list[dict[tuple[str, int], int]] = []
    began, longest = time.monotonic(), 0.0
    deadline = began + 60 * MINUTES / len(STORES)
    with cluster:
        mix = Soak(cluster, random.Random(SEED), running)
        mix.prepare()
        # No phase is begun that would probably end too late.
        while not samples or time.monotonic() + longest < deadline:
            phase_began = time.monotonic()
            mix.phase(STEPS)
            check(cluster, mix)
            samples.append(memory(cluster))
            longest = max(longest, time.monotonic() - phase_began)
            sys.stdout.write(
                f"{time.monotonic() - began:6.1f} s: all is well after {len(mix.steps_taken)} steps\n"
            )
        assert growing(samples) == []
        mix.delete_everything()
        check(cluster, mix)
    assert left_on_machine(cluster) == []


def check(cluster: RealCluster, mix: Soak) -> None:
    found = faults_after(cluster, mix.known_uids, SETTLE_SECONDS_MAX)
    assert not found, "\n".join((*found, f"SEED={SEED}, after {mix.steps_taken}"))
