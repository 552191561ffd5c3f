from alcove.apiserver.worker_counts import Counted, WorkerCountsMemory


def test_what_one_worker_counts_the_others_see() -> None:
    memory = WorkerCountsMemory.create(3)
    watches = [memory.counts(worker, Counted.WATCHES) for worker in range(3)]
    streams = memory.counts(0, Counted.STREAMS)
    for number, counts in enumerate(watches):
        counts.add("acme", number + 1)
    assert [counts.total("acme") for counts in watches] == [6, 6, 6]
    assert [counts.own("acme") for counts in watches] == [1, 2, 3]
    assert watches[0].total("other") == 0
    assert streams.total("acme") == 0
    watches[1].add("acme", -2)
    assert watches[0].total("acme") == 4


def test_another_process_with_the_same_memory_sees_the_same() -> None:
    memory = WorkerCountsMemory.create(2)
    other = WorkerCountsMemory(memory.descriptor, memory.key, 2)
    memory.counts(0, Counted.BUFFERED_BYTES).add("acme", 5 << 30)
    assert other.counts(1, Counted.BUFFERED_BYTES).total("acme") == 5 << 30


def test_what_a_worker_had_that_exited_is_forgotten() -> None:
    memory = WorkerCountsMemory.create(2)
    for counted in Counted:
        for worker in (0, 1):
            memory.counts(worker, counted).add("acme", 1)
    memory.clear(1)
    assert [memory.counts(1, counted).total("acme") for counted in Counted] == [1] * len(Counted)


def test_nothing_remains_of_a_group_that_has_nothing() -> None:
    counts = WorkerCountsMemory.create(1).counts(0, Counted.CONNECTIONS)
    for number in range(1000):
        counts.add(f"t{number}", 1)
        counts.add(f"t{number}", -1)
    assert len(counts) == 0 and not vars(counts)["_places"]
    assert counts.total("t1") == 0
