"""The limit of open files, raised in a process of its own."""

import subprocess
import sys

PROGRAM = """
import resource
from alcove.processes.open_files import raise_open_files_limit
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
assert raise_open_files_limit() == hard
files = [open("/dev/null") for _ in range(100)]
"""


def test_a_server_may_open_more_files_than_the_soft_limit_it_was_started_with() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
