from concurrent.futures import ThreadPoolExecutor

from alcove.testing.ports import FIRST, LAST, free_port


def test_no_two_callers_get_the_same_port() -> None:
    with ThreadPoolExecutor(8) as threads:
        ports = list(threads.map(lambda _number: free_port(), range(50)))
    assert len(set(ports)) == 50
    assert all(FIRST <= port <= LAST for port in ports)
