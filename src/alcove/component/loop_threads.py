"""Event loops in threads of their own, for work that may keep a loop busy and must not delay others."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


async def run_in_thread(name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `main` on an event loop in a thread of this name, and wait until it has ended. Raises what it
    raises. If the caller is cancelled, `main` is cancelled, and waited for."""
    runner = asyncio.Runner(loop_factory=type(asyncio.get_running_loop()))
    loop = runner.get_loop()
    ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    def run() -> None:
        try:
            with runner:
                runner.run(main())
        except asyncio.CancelledError:
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    def cancel() -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    threading.Thread(target=run, name=name, daemon=True).start()
    waiting = asyncio.wrap_future(ended)
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not ended.done():
            loop.call_soon_threadsafe(cancel)
            await asyncio.wait([waiting])
        raise


def called_on_this_loop(
    function: Callable[_Arguments, Awaitable[_Result]],
) -> Callable[_Arguments, Awaitable[_Result]]:
    """A function for other threads' loops that runs `function` on the loop that is running now."""
    here = asyncio.get_running_loop()

    async def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        async def called() -> _Result:
            return await function(*args, **kwargs)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), here))

    return call
