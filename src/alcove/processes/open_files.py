"""The limit of open files of a server process."""

import resource


def raise_open_files_limit() -> int:
    """Raises the soft limit of open files to the hard limit, and returns it. The soft limit is 1,024 on most
    machines, which a server with many connections would reach."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
