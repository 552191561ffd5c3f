"""A tenant that abuses a cluster with nothing but its administrator's kubeconfig and code in its pods.

    with Abuse(Target(kubeconfig=…), ["watch_flood", "slow_bodies"]):
        figures = quiet.measure(10)

Each kind of abuse goes on until the process ends, whatever it is answered: being refused is what it deserves. The
process uses only time of the cores that nobody else wants (SCHED_IDLE): an abuser's clients use machines of their own, not
the cores that the cluster runs on. A nice value would not do: a process that becomes ready to run waits behind a nice one
for some milliseconds, though another core runs nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import orjson
import uvloop

from alcove.processes.priorities import set_session_priority
from alcove.testing.abuse import api, nodes
from alcove.testing.abuse.attacker import Attacker, Target

NICE_MAX = 19
STOP_SECONDS_MAX = 5.0
"""From SIGTERM until the process is killed. What was answered is not known then."""
READY = b"ready\n"

KINDS: dict[str, Callable[[Attacker], Coroutine[Any, Any, None]]] = {
    each.__name__: each
    for each in (
        api.costly_policies,
        api.list_flood,
        api.large_patches,
        api.watch_flood,
        api.connection_flood,
        api.anonymous_connections,
        api.handshake_flood,
        api.slow_bodies,
        api.tiny_chunks,
        api.pipelining,
        api.large_objects,
        api.events_flood,
        nodes.service_churn,
        nodes.giant_binds,
        nodes.hostile_statuses,
        nodes.tarpit_webhook,
        nodes.abusive_pods,
        nodes.dns_flood,
    )
}


async def run(target: Target, kinds: list[str]) -> None:
    """Abuses until SIGTERM, then writes what was answered to standard output."""
    attacker = Attacker(target)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    os.write(1, READY)
    tasks = [asyncio.create_task(KINDS[kind](attacker), name=kind) for kind in kinds]
    stopped = asyncio.create_task(stopping.wait())
    done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in done - {stopped}:
        task.result()
        raise AssertionError(f"{task.get_name()} ended")
    _leave(attacker.outcomes)


def _leave(outcomes: Counter[str]) -> None:
    """Ends the process at once: an abuser does not say goodbye on a thousand connections."""
    os.write(1, orjson.dumps(dict(sorted(outcomes.items()))))
    os._exit(0)


class Abuse:
    """The abuser's process, from the block's beginning to its end."""

    def __init__(self, target: Target, kinds: list[str]) -> None:
        self._target = target
        self._kinds = kinds
        self.outcomes: dict[str, int] = {}
        """Answers by kind and status, known after the block. Empty if the process had to be killed."""

    def __enter__(self) -> Abuse:
        target = self._target
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "alcove.testing.abuse.process"),
                *(str(target.kubeconfig), *self._kinds, "--node", target.node),
                *("--namespace", target.namespace, "--dns", target.dns, "--class", target.runtime_class),
            ],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        set_session_priority(self._process.pid, NICE_MAX)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == READY, "the abuser's process did not start"
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.terminate()
        output = b""
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = self._process.communicate(timeout=STOP_SECONDS_MAX)
        is_stuck = self._process.poll() is None
        self._process.kill()
        self._process.wait()
        with self._errors:
            self._errors.seek(0)
            errors = self._errors.read()[-4000:].decode(errors="replace")
        assert is_stuck or self._process.returncode == 0, f"the abuser's process failed: {errors}"
        self.outcomes = orjson.loads(output) if output else {}


def main() -> None:
    parser = argparse.ArgumentParser(description="Abuse a cluster as a tenant, until SIGTERM.")
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("kinds", nargs="+", choices=list(KINDS))
    parser.add_argument("--node", default="n1")
    parser.add_argument("--namespace", default="", help="name of the network namespace of a pod")
    parser.add_argument("--dns", default="", help="address of the DNS server in that namespace")
    parser.add_argument("--class", default="", dest="runtime_class", help="RuntimeClass of the pods")
    given = parser.parse_args()
    target = Target(given.kubeconfig, given.node, given.namespace, given.dns, given.runtime_class)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    uvloop.run(run(target, given.kinds))


if __name__ == "__main__":
    main()
