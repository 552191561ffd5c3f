"""How processes of the cluster write their logs: to standard error, one line an event."""

from __future__ import annotations

import logging


def log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
