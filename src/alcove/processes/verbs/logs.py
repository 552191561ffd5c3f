"""How processes of the cluster write their logs: to standard error, one line an event, its fields after the message."""

from __future__ import annotations

import logging

_USUAL = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime"}


class _WithFields(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = [f"{name}={value!r}" for name, value in vars(record).items() if name not in _USUAL]
        return " ".join([super().formatMessage(record), *fields])


def log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_WithFields("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
