"""Long computations of requests, beside the event loop and fair between tenants.

What a request computes takes well under a millisecond, and runs on the event loop. A tenant can also make it
long: a large object that is decoded, pruned, merged and validated, a schema with thousands of properties,
an expression that loops. Such a computation runs in a thread, so that the loop serves everybody else meanwhile.

    threads, not processes     A computation reads schemas, compiled programs, stored objects and roles, and
                               returns objects that the next step changes: all of it would have to be sent, and
                               decoded again on the loop. The price is the interpreter lock.
    one thread at a time       While a computation runs, the loop waits for the lock at most SWITCH_SECONDS
                               whenever it wakes up. One run each on a busy machine of two cores, median and
                               p99 of another tenant's GET in ms: no thread 0.7 and 10; one thread 7.2 and 71 with
                               Python's default of 5 ms, 0.5 and 14 with 0.2 ms; two threads 0.8 and 40.
    turns between tenants      The tenant that has used the least time for its weight is next. An evaluation of CEL
                               makes room for computations of other tenants every few milliseconds.
    a time limit               A computation that used `seconds_max` of CPU time is stopped by an exception, and so
                               is one whose request was cancelled.

All state is changed on the event loop only. A thread computes, reports, and ends.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from alcove.api.cel.budget import Allowance
from alcove.api.cel.errors import LongEvaluation
from alcove.api.errors import TooLarge, TooManyRequests
from alcove.api.ids import TenantId

T = TypeVar("T")

LARGE_BYTES = 24 << 10
"""Objects of this size and more are processed in a thread. Chosen so that steps on smaller ones should take
a few milliseconds; that was not measured for every kind."""
SECONDS_MAX = 5.0
"""CPU time of one computation."""
QUEUE_PER_TENANT_MAX = 64
"""Computations of one tenant that run or wait for their turn; its further requests get 429."""
SWITCH_SECONDS = 0.0002
INLINE_COST = 5_000
"""Units of CEL that are evaluated on the event loop in a row; most expressions cost less than a hundred."""
_SHARES_KEPT_MAX = 1_024


class OutOfTime(Exception):
    """Raised inside a computation that must stop. Nothing but its end may catch it."""


def on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """The result of a function that reads what only the event loop may touch, from any thread."""
    if asyncio._get_running_loop() is loop:
        return call()
    result: concurrent.futures.Future[T] = concurrent.futures.Future()

    def answer() -> None:
        try:
            result.set_result(call())
        except Exception as error:
            result.set_exception(error)

    loop.call_soon_threadsafe(answer)
    return result.result()


class _Job:
    __slots__ = (
        "_clock",
        "_compute",
        "_loop",
        "_report",
        "_turn",
        "cpu_seconds",
        "future",
        "has_computed",
        "must_pause",
        "thread",
    )

    def __init__(self, compute: Callable[[], Any], report: Callable[[_Job, bool], None]) -> None:
        self._compute = compute
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._turn = threading.Event()
        self._clock: int | None = None
        """The thread's CPU clock."""
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.thread: int | None = None
        """The thread's id. None until its first turn, and after the computation has ended."""
        self.has_computed = False
        """Whether its thread has nothing left to do but to end."""
        self.cpu_seconds = 0.0
        self.must_pause = False
        """Set on the loop when another tenant waits for a turn."""

    def resume(self) -> None:
        """Give it a turn."""
        self.must_pause = False
        if self.thread is None:
            # A `threading.Thread` would be waited for until it runs, which takes long on a busy machine.
            self.thread = _thread.start_new_thread(self._run, ())
        else:
            self._turn.set()

    def stop(self) -> None:
        """Raise OutOfTime in the thread, at its next instruction."""
        # The id of a thread that has ended may be another thread's. New threads are started on the loop, as this is
        # called, so the id is not reused in between.
        if self.thread is not None and not self.has_computed:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread), ctypes.py_object(OutOfTime)
            )
            self._turn.set()

    def used_seconds(self) -> float:
        """CPU time used so far."""
        try:
            return time.clock_gettime(self._clock) if self._clock is not None else 0.0
        except OSError:  # The thread has ended.
            return self.cpu_seconds

    def _pause(self) -> None:
        """Let computations of other tenants have a turn."""
        if not self.must_pause:
            return
        self._turn.clear()
        self.cpu_seconds = time.thread_time()
        self._loop.call_soon_threadsafe(self._report, self, False)
        self._turn.wait()

    def _run(self) -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            try:
                self._clock = time.pthread_getcpuclockid(threading.get_ident())
                with Allowance(pause=self._pause):
                    result = self._compute()
            except BaseException as error:
                failure = error
            self._end(result, failure)
        except OutOfTime as error:
            # It was stopped just after its end.
            self._end(result, failure or error)

    def _end(self, result: Any, failure: BaseException | None) -> None:
        self.has_computed = True
        self.cpu_seconds = time.thread_time()
        try:
            self._loop.call_soon_threadsafe(self._finish, result, failure)
        except RuntimeError:
            pass  # The loop is closed: nobody waits.

    def _finish(self, result: Any, failure: BaseException | None) -> None:
        if self.thread is None:
            return
        self.thread = None
        if self.future.done():
            pass
        elif isinstance(failure, OutOfTime):
            self.future.set_exception(_out_of_time())
        elif failure is not None:
            self.future.set_exception(failure)
        else:
            self.future.set_result(result)
        self._report(self, True)


class _Share:
    __slots__ = ("jobs", "used")

    def __init__(self) -> None:
        self.jobs: deque[_Job] = deque()
        """The first one is running or paused, or is the next one."""
        self.used = 0.0
        """CPU seconds divided by the tenant's weight; not less than that of others when it last began."""


class ComputeThreads:
    """Use it from one event loop only."""

    def __init__(
        self,
        *,
        weight: Callable[[TenantId], int] = lambda _tenant: 1,
        charge: Callable[[TenantId, float], None] = lambda _tenant, _seconds: None,
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        """`charge` is called with the CPU seconds that a tenant has used."""
        self._weight = weight
        self._charge = charge
        self._seconds_max = seconds_max
        self._shares: dict[TenantId, _Share] = {}
        self._running: tuple[TenantId, _Job, float] | None = None
        """The tenant, its job, and the job's CPU seconds when its turn began."""
        self._used = 0.0
        """The least `used` of a tenant that has jobs: a tenant that was idle begins with it."""
        self._is_watching = False
        self._switch_seconds = sys.getswitchinterval()

    async def for_size(self, tenant: TenantId, size_bytes: int, compute: Callable[[], Any]) -> Any:
        """The result of `compute`, which processes an object of this size: computed here if it is small.

        If it evaluates expressions that take long, it is stopped and computed again in a thread.
        """
        if size_bytes < LARGE_BYTES:
            try:
                with Allowance(INLINE_COST):
                    return compute()
            except LongEvaluation:
                pass
        return await self.run(tenant, compute)

    async def run(self, tenant: TenantId, compute: Callable[[], Any]) -> Any:
        """The result of `compute`, computed in a thread.

        It must not use the event loop, and nobody else may change what it reads. Raises what it raises, TooLarge
        if it took too long, TooManyRequests if too many computations of the tenant are waiting.
        """
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = _Share()
        if len(share.jobs) >= QUEUE_PER_TENANT_MAX:
            raise TooManyRequests.after(1, f'too many requests of tenant "{tenant}" are being computed')
        if not share.jobs:
            share.used = max(share.used, self._used)
        job = _Job(compute, self._turn_ended)
        share.jobs.append(job)
        self._next()
        try:
            return await job.future
        except asyncio.CancelledError:
            if self._running is not None and self._running[1] is job:
                job.stop()
            elif job.thread is None and job in share.jobs:
                share.jobs.remove(job)
            raise

    def _next(self) -> None:
        """Give the turn to the tenant that has used the least, or ask the running computation to pause."""
        waiting = [
            (share.used, tenant)
            for tenant, share in self._shares.items()
            if share.jobs and (self._running is None or tenant != self._running[0])
        ]
        if self._running is not None:
            self._running[1].must_pause = bool(waiting)
            return
        if not waiting:
            sys.setswitchinterval(self._switch_seconds)
            return
        self._used, tenant = min(waiting)
        job = self._shares[tenant].jobs[0]
        self._running = (tenant, job, job.cpu_seconds)
        sys.setswitchinterval(SWITCH_SECONDS)
        job.resume()
        job.must_pause = len(waiting) > 1
        if job.future.done():
            job.stop()
        if not self._is_watching:
            self._watch()

    def _turn_ended(self, job: _Job, is_done: bool) -> None:
        assert self._running is not None and self._running[1] is job
        tenant, _, before = self._running
        self._running = None
        share = self._shares[tenant]
        used = max(job.cpu_seconds - before, 0.0)
        share.used += used / max(self._weight(tenant), 1)
        self._charge(tenant, used)
        if is_done:
            share.jobs.popleft()
            if not share.jobs and len(self._shares) > _SHARES_KEPT_MAX:
                del self._shares[tenant]
        self._next()

    def _watch(self) -> None:
        """Stop the running computation if it has used its time, and look again later."""
        self._is_watching = self._running is not None
        if self._running is not None:
            job = self._running[1]
            if job.used_seconds() > self._seconds_max:
                job.stop()
            asyncio.get_running_loop().call_later(self._seconds_max / 8, self._watch)


def _out_of_time() -> TooLarge:
    return TooLarge(
        "the request exceeded its time limit: the object, patch or schema is too large to be processed, or an "
        "expression takes too long"
    )
