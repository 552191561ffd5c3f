"""When a certificate is renewed, and files that are replaced atomically."""

from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from alcove.agent import certificates
from alcove.agent.certificates import renewal_time, replace_file, subject_of, until

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(begins: int, seconds: int) -> x509.Certificate:
    start = datetime.fromtimestamp(begins, UTC)
    builder = x509.CertificateBuilder().subject_name(subject_of("n1")).issuer_name(subject_of("n1"))
    builder = builder.public_key(KEY.public_key()).serial_number(1)
    builder = builder.not_valid_before(start).not_valid_after(start + timedelta(seconds=seconds))
    return builder.sign(KEY, hashes.SHA256())


@given(st.integers(0, 2_000_000_000), st.integers(10, 400 * 86400), st.floats(0, 1))
def test_the_next_is_due_between_70_and_90_percent_of_its_life(
    begins: int, seconds: int, chance: float
) -> None:
    due = renewal_time(certificate(begins, seconds), chance)
    assert begins + 0.7 * seconds - 1e-3 <= due <= begins + 0.9 * seconds + 1e-3


async def test_waiting_minds_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "CHECK_SECONDS", 0.01)
    now = [0.0]
    waiting = asyncio.create_task(until(1e9, lambda: now[0]))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    now[0] = 2e9
    async with asyncio.timeout(60):
        await waiting


def test_a_file_is_replaced_behind_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o644)
    link.symlink_to(real)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
