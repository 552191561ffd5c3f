"""Warnings of a response are bounded: clients refuse long headers."""

from alcove.apiserver.warning_headers import warning_headers


def test_a_few_warnings_are_sent_whole() -> None:
    assert warning_headers(['a "b" \\', "ü\n"]) == [
        (b"Warning", b'299 - "a \\"b\\" \\\\"'),
        (b"Warning", b'299 - "\\xfc "'),
    ]


def test_a_response_to_a_pod_with_a_name_of_a_megabyte_has_headers_that_clients_read() -> None:
    [only] = warning_headers(["x" * (1 << 20)])
    assert len(only[1]) < 300
    many = warning_headers(["\U0001f600" * 10_000] * 1_000)
    assert sum(len(value) for _, value in many) < 60_000 and len(many) == 16
