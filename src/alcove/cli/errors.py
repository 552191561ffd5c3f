"""How commands fail: one line that says what to do, and an exit code for scripts.

0  success
1  failed; the message says why
2  invalid command line
3  the API server cannot be reached, or the cluster is not up
4  timeout
5  not found
6  forbidden by the API server
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer


class ExitCode(IntEnum):
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMEOUT = 4
    NOT_FOUND = 5
    FORBIDDEN = 6


class CliError(Exception):
    """A user-facing error. Raised anywhere in a command; `exit_on_error` prints it once."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: ExitCode = ExitCode.FAILED) -> typer.Exit:
    """Prints the error, and returns the exit to raise."""
    from alcove.cli.output import escape

    # Servers' messages quote what tenants wrote.
    shown = "\n".join(map(escape, message.split("\n")))
    typer.secho(f"error: {shown}", err=True, fg=typer.colors.RED)
    return typer.Exit(code)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turns CliError, ApiError, ConnectionFailed and OSError into a message and an exit code."""
    try:
        yield
    except CliError as failure:
        raise fail(str(failure), failure.code) from failure
    except BrokenPipeError as error:
        # The reader of the pipe exited, as `head` does: discard what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.FAILED) from error
    except OSError as error:
        raise fail(_os_message(error)) from error
    except Exception as error:
        if (code := _api_failure(error)) is None:
            raise
        raise fail(str(error), code) from error


def _os_message(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    return f"{error.strerror or error}:{where}" if where else str(error.strerror or error)


def _api_failure(error: Exception) -> ExitCode | None:
    """The exit code of an ApiError or ConnectionFailed. None for other exceptions."""
    # Imported here: only a failing command pays for the import.
    from alcove.api.errors import ApiError
    from alcove.cli.connection import ConnectionFailed

    if isinstance(error, ConnectionFailed):
        return ExitCode.UNREACHABLE
    if not isinstance(error, ApiError):
        return None
    match error.code:
        case 404:
            return ExitCode.NOT_FOUND
        case 401 | 403:
            return ExitCode.FORBIDDEN
        case _:
            return ExitCode.FAILED
