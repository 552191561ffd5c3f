"""A request's body that is read while the request is handled: complete, with backpressure, bounded."""

from __future__ import annotations

import asyncio

from alcove.http.upload import HELD_BYTES_MAX, RequestUpload


class Reading(asyncio.Transport):
    """The part of a transport that an upload uses."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Taking:
    def __init__(self) -> None:
        self.data = b""
        self.is_whole = False

    def take(self, data: bytes) -> None:
        self.data += data

    def ended(self) -> None:
        self.is_whole = True


def test_data_received_before_a_follower_is_bounded() -> None:
    transport, taking = Reading(), Taking()
    upload = RequestUpload(transport, None)
    upload.received(b"a")
    assert transport.is_read
    upload.received(b"b" * HELD_BYTES_MAX)
    assert not transport.is_read
    upload.follow(taking)
    assert transport.is_read
    upload.received(b"c")
    upload.finished()
    assert taking.data == b"a" + b"b" * HELD_BYTES_MAX + b"c"
    assert taking.is_whole


def test_an_upload_that_is_complete_before_it_is_followed() -> None:
    taking = Taking()
    upload = RequestUpload(Reading(), 1)
    upload.received(b"a")
    upload.finished()
    upload.follow(taking)
    assert (taking.data, taking.is_whole) == (b"a", True)


def test_requests_that_follow_are_read_though_it_was_paused_at_its_end() -> None:
    transport = Reading()
    upload = RequestUpload(transport, None)
    upload.follow(Taking())
    upload.pause()
    assert not transport.is_read
    upload.finished()
    assert transport.is_read
    upload.pause()
    assert transport.is_read, "it is over"


def test_a_discarded_upload_keeps_reading_and_holds_nothing() -> None:
    transport = Reading()
    upload = RequestUpload(transport, None)
    upload.received(b"a" * (HELD_BYTES_MAX + 1))
    upload.discard()
    assert transport.is_read
    upload.received(b"b" * (HELD_BYTES_MAX + 1))
    assert transport.is_read
