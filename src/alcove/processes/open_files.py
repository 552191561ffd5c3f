"""The limit of open files of a server process."""

import resource


def raise_open_files_limit() -> int:
    """Raises the soft limit of open files to the hard limit, and returns it. The soft limit is 1,024 on most
    machines, which a server with many connections would reach."""
    hard = open_files_max()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def open_files_max() -> int:
    """The hard limit of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def connections_that_fit(wanted: int) -> int:
    """At most `wanted`, and fewer if the limit of open files leaves no room for them beside other files: a server
    that reaches it could not accept anybody's connection."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft * 3 // 4)
