"""Whose lease it is: a process of this machine that was killed is not waited for, anybody else is."""

import os

import pytest

from alcove.processes.leadership import identity
from alcove.processes.machine.readiness import pid_of


@pytest.mark.parametrize(
    ("holder", "pid"),
    [
        ("here_12_ab34cd56", 12),
        ("here_12_ab34cd56_7", 12),
        ("here_12", 12),
        ("here_no_number", None),
        ("there_12_ab34cd56", None),
        ("here-too_12_ab34cd56", None),
        ("", None),
    ],
)
def test_the_process_that_a_lease_names(holder: str, pid: int | None) -> None:
    assert pid_of(holder, "here") == pid


def test_a_host_may_have_the_sign_in_its_name() -> None:
    assert pid_of("this_very_host_12_ab", "this_very_host") == 12


def test_what_processes_call_themselves_is_understood() -> None:
    assert pid_of(identity(), os.uname().nodename) == os.getpid()
