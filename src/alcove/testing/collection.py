"""A pytest plugin: a run whose tests could not all be collected was interrupted, whatever else happened in it.

Distributed over workers, pytest then runs nothing and calls it a failed test; to try failed tests again would bring back
the one broken file, and leave out all others.
"""

import pytest

BROKEN = pytest.StashKey[bool]()


class Collection:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._config.stash[BROKEN] = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._config.stash.get(BROKEN, False):
            session.exitstatus = pytest.ExitCode.INTERRUPTED


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Collection(config))
