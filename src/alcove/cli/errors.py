"""How verbs fail: one line that says what to do, and an exit code that scripts can use.

0  done
1  it failed; the message says why
2  the command line is wrong
3  no API server answers, or the cluster is not up
4  it took longer than --timeout
5  there is no such thing
6  the API server does not allow it
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
    """Told to the person who typed the verb. Raised anywhere in a verb, shown once, by `exit_on_error`."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: ExitCode = ExitCode.FAILED) -> typer.Exit:
    """Says it, and gives the exit to raise."""
    typer.secho(f"error: {message}", err=True, fg=typer.colors.RED)
    return typer.Exit(code)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turns what can go wrong with the API and on this machine into a message and an exit code."""
    try:
        yield
    except CliError as failure:
        raise fail(str(failure), failure.code) from failure
    except BrokenPipeError as error:
        # Who reads has had enough, as `head` has. What is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.FAILED) from error
    except OSError as error:
        raise fail(_os_message(error)) from error
    except Exception as error:
        if (known := _api_failure(error)) is None:
            raise
        raise fail(str(error), known) from error


def _os_message(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    return f"{error.strerror or error}:{where}" if where else str(error.strerror or error)


def _api_failure(error: Exception) -> ExitCode | None:
    """The code for a refusal of the API or a server that is away; None: no such failure."""
    # Imported here: who has no failure pays nothing.
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
