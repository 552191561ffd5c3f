"""What the soak says of the memory of processes."""

from alcove.testing.soak_checks import growing

MIB = 1 << 20


def test_a_process_that_grows_in_the_last_half_is_found() -> None:
    samples = [{("agent", 7): size * MIB} for size in (60, 60, 60, 80, 140, 200)]
    assert growing(samples) == ["agent grew from 80 to 200 MiB"]


def test_growth_in_the_first_half_and_of_a_new_process_is_no_fault() -> None:
    samples = [{("agent", 7): size * MIB} for size in (20, 120, 121, 122)]
    assert growing(samples) == []
    assert growing([{("agent", 7): 200 * MIB}, {("agent", 8): 20 * MIB}]) == []
    assert growing([{("agent", 7): 60 * MIB}]) == []
