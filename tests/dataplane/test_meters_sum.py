"""A law of meters: what all tenants are charged for is what veths and cgroups have counted, whatever comes, goes and restarts."""

import pytest

from alcove.testing.metered_lab import error_percent

ERROR_PERCENT_MAX = 0.5


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_sum_over_tenants_is_what_the_node_has_counted(seed: int) -> None:
    assert error_percent(seed) <= ERROR_PERCENT_MAX
