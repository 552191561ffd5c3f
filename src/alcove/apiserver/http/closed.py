"""The transport of connections that are over: takes everything, sends nothing."""

import asyncio


class _Closed(asyncio.Transport):
    def is_closing(self) -> bool:
        return True

    def write(self, data: object) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


CLOSED = _Closed()
