"""`alcove capture --filter`: compiled on the user's machine."""

import ctypes
import ctypes.util
import shutil

import pytest

from alcove.cli.capture import by_library, compiled
from alcove.cli.errors import CliError

LIBRARY = ctypes.util.find_library("pcap")


@pytest.mark.skipif(LIBRARY is None, reason="libpcap is not installed")
def test_a_filter_becomes_instructions_or_says_what_is_wrong() -> None:
    assert LIBRARY is not None
    pcap = ctypes.CDLL(LIBRARY)
    assert by_library(pcap, "ip") == ["40 0 0 12", "21 0 1 2048", "6 0 0 262144", "6 0 0 0"]
    with pytest.raises(CliError, match="invalid filter"):
        by_library(pcap, "tcp prot 80")


def test_without_a_compiler_the_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(CliError, match="libpcap"):
        compiled("tcp port 80")
