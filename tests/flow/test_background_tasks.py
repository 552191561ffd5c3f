"""A background task that raises is logged and restarted, or ends its process: in real processes, by real faults."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from alcove.testing.local import whole_lines
from alcove.testing.server import Caller, LocalServer, wait_until

SERVE = """
import asyncio, sys
from pathlib import Path
from alcove.component import logs
from alcove.processes.apiserver import serve
from alcove.processes.apiserver_config import ApiServerConfig, write_admin_kubeconfig
from alcove.store.compaction import RetentionPolicy

async def main():
    config = ApiServerConfig(data=Path(sys.argv[1]), port=0, history=RetentionPolicy(seconds=0, revisions_max=1, every_seconds=0.05))
    async with serve(config) as running:
        write_admin_kubeconfig(config, running.url, running.authority)
        print("serving", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

logs.configure("apiserver", form=logs.Form.JSON)
asyncio.run(main())
"""
FATAL = """
import asyncio
from alcove.component import logs
from alcove.component.tasks import BackgroundTasks

async def lose():
    raise OSError("the store is gone")

async def main():
    async with BackgroundTasks() as tasks:
        tasks.fatal("watch cache", lose())
        await asyncio.Event().wait()

logs.configure("apiserver", form=logs.Form.JSON)
asyncio.run(main())
"""
FAULT = """
CREATE TRIGGER fault BEFORE UPDATE ON meta WHEN NEW.name = 'compacted'
BEGIN SELECT RAISE(ABORT, 'compaction is broken'); END
"""


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in whole_lines(log)]


def execute(data: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(data / "store.db", timeout=30)) as connection, connection:
        return connection.execute(statement).fetchall()


@contextmanager
def serving(data: Path, log: Path) -> Iterator[None]:
    """An API server that compacts all the time."""
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert process.stdout is not None and process.stdout.readline() == "serving\n", log.read_text()
        yield
        process.communicate("stop\n", timeout=90)
        assert process.returncode == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def test_compaction_goes_on_after_a_fault_of_the_store(tmp_path: Path) -> None:
    with LocalServer(tmp_path):
        pass  # It makes the store.
    execute(tmp_path, FAULT)
    log = tmp_path / "compacting.log"

    def failures() -> list[dict[str, Any]]:
        return [line for line in lines(log) if line["message"] == "background task failed; restarting"]

    with serving(tmp_path, log):
        wait_until(lambda: len(failures()) >= 2)
        assert {(line["task"], line["component"], line["error"]) for line in failures()} == {
            ("compaction", "apiserver", "compaction is broken")
        }
        # The server itself serves on.
        assert Caller(tmp_path / "admin.kubeconfig").get("/readyz").status == 200
        execute(tmp_path, "DROP TRIGGER fault")
        wait_until(lambda: execute(tmp_path, "SELECT value FROM meta WHERE name = 'compacted'")[0][0] > 0)


def test_a_fatal_task_ends_its_process_with_a_log_line_and_a_code() -> None:
    done = subprocess.run([sys.executable, "-c", FATAL], capture_output=True, text=True, timeout=60)
    (line,) = (json.loads(line) for line in done.stderr.splitlines())
    assert done.returncode == 1
    assert line["message"] == "process failed; exiting" and line["level"] == "critical"
    assert "OSError: the store is gone\n" in line["exception"]
    assert "background task 'watch cache' failed" in line["exception"]


def test_every_line_of_a_process_is_json_where_asked_for(tmp_path: Path) -> None:
    with LocalServer(tmp_path, "--log-format", "json", "--log-level", "debug") as server:
        assert server.system.get("/readyz").status == 200
    found = [json.loads(line) for line in server.log.splitlines()]
    assert "serving" in {line["message"] for line in found}
    assert {line["component"] for line in found} == {"apiserver"}
