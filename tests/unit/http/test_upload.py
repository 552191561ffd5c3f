"""A request's body that is read while the request is handled: complete, with backpressure, bounded."""

from __future__ import annotations

from alcove.http.upload import HELD_BYTES_MAX, RequestUpload


class Taking:
    def __init__(self) -> None:
        self.data = b""
        self.is_whole = False

    def take(self, data: bytes) -> None:
        self.data += data

    def ended(self) -> None:
        self.is_whole = True


def ignore() -> None:
    pass


def test_data_received_before_a_follower_is_bounded() -> None:
    taking = Taking()
    upload = RequestUpload(None, ignore)
    upload.received(b"a")
    assert not upload.is_paused
    upload.received(b"b" * HELD_BYTES_MAX)
    assert upload.is_paused
    upload.follow(taking)
    assert not upload.is_paused
    upload.received(b"c")
    upload.finished()
    assert taking.data == b"a" + b"b" * HELD_BYTES_MAX + b"c"
    assert taking.is_whole


def test_an_upload_that_is_complete_before_it_is_followed() -> None:
    taking = Taking()
    upload = RequestUpload(1, ignore)
    upload.received(b"a")
    upload.finished()
    upload.follow(taking)
    assert (taking.data, taking.is_whole) == (b"a", True)


def test_requests_that_follow_are_read_though_it_was_paused_at_its_end() -> None:
    upload = RequestUpload(None, ignore)
    upload.follow(Taking())
    upload.pause()
    assert upload.is_paused
    upload.finished()
    assert not upload.is_paused
    upload.pause()
    assert not upload.is_paused, "it is over"


def test_a_discarded_upload_keeps_reading_and_holds_nothing() -> None:
    upload = RequestUpload(None, ignore)
    upload.received(b"a" * (HELD_BYTES_MAX + 1))
    upload.discard()
    assert not upload.is_paused
    upload.received(b"b" * (HELD_BYTES_MAX + 1))
    assert not upload.is_paused
