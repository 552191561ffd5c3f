"""Looks up host names with the machine's resolver."""

import socket


def look_up(host: str) -> tuple[str, ...]:
    """The addresses of a host; none for an unknown name. Blocks, so call it in a thread."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return ()
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))
