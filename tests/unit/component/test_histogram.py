from alcove.component.histogram import Histogram


def test_a_value_equal_to_a_bound_counts_in_its_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for observed in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(observed)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
