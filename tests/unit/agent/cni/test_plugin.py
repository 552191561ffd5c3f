"""The plugin as a process: its own responses, and its errors when the agent does not answer."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

CONFIG = {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni"}


def call(command: str, stdin: str) -> tuple[int, Any]:
    environment = {"CNI_COMMAND": command} if command else {}
    done = subprocess.run(
        [sys.executable, "-m", "alcove.agent.cni"],
        input=stdin,
        env={**environment, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def test_version() -> None:
    code, output = call("VERSION", '{"cniVersion": "1.0.0"}')
    assert code == 0
    assert output["cniVersion"] == "1.0.0"
    assert output["supportedVersions"] == ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]


@pytest.mark.parametrize(
    ("command", "stdin", "code"),
    [
        ("ADD", "{", 6),
        ("ADD", "[]", 6),
        ("ADD", "", 1),
        ("ADD", '{"cniVersion": "9.0.0"}', 1),
        ("", json.dumps({**CONFIG, "socket": "/nowhere"}), 4),
        ("ADD", json.dumps(CONFIG), 7),
        ("ADD", json.dumps({**CONFIG, "socket": "/nowhere/at/all"}), 5),
        ("DEL", json.dumps({**CONFIG, "socket": "/nowhere/at/all"}), 5),
        ("STATUS", json.dumps({**CONFIG, "socket": "/nowhere/at/all"}), 50),
    ],
)
def test_errors_before_the_agent_is_called(command: str, stdin: str, code: int) -> None:
    exit_code, output = call(command, stdin)
    assert exit_code == 1
    assert output["code"] == code
    assert output["cniVersion"]
    assert output["msg"]


def test_it_hands_over_all_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    heard: list[bytes] = []

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            while part := client.recv(65536):
                heard.append(part)
            client.sendall(b'{"cniVersion": "1.1.0", "ips": []}')

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        config = {**CONFIG, "socket": str(path), "args": {"x": 1}}
        assert call("ADD", json.dumps(config)) == (0, {"cniVersion": "1.1.0", "ips": []})
        thread.join()
    asked = json.loads(b"".join(heard))
    assert asked == {"environment": {"CNI_COMMAND": "ADD"}, "config": config}


def test_it_is_started_for_every_pod_so_it_imports_little() -> None:
    listed = "import sys, alcove.agent.cni.plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "msgspec", "orjson", "ipaddress", "typing_extensions", "dataclasses"}
    assert {name for name in loaded if name.startswith("alcove")} == {
        "alcove",
        "alcove.agent",
        "alcove.agent.cni",
        "alcove.agent.cni.plugin",
    }
