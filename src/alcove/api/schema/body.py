"""Request bodies: JSON or YAML bytes to a value, with everything bounded and every fault a 400.

What comes out nests at most `NESTING_MAX` levels, so that whatever walks or encodes it later never
runs out of stack, and shares no parts, so that it may be changed in place.
"""

from typing import Any

import orjson

from alcove.api.errors import BadRequest
from alcove.api.schema import duplicates as json_duplicates
from alcove.api.schema import yaml_text
from alcove.api.schema.yaml_text import YamlError

NESTING_MAX = 240
_ENCODER_NESTING_MAX = 254
"""What orjson can write; the difference is for what an object is wrapped into (lists, reviews)."""


def parse_json(text: bytes, duplicates: list[str] | None = None) -> Any:
    """The value of a JSON text. What is to be told of fields given twice is added to `duplicates` if given."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body of the request is not valid JSON: {error}") from None
    return _checked(value, text, duplicates)


def parse_yaml(text: bytes, duplicates: list[str] | None = None) -> Any:
    """The value of a YAML text of one document, as `parse_json`."""
    if text.startswith(b"{"):
        # kubectl says YAML and sends JSON (apply --server-side): it is YAML too, and a hundred times faster.
        try:
            return _checked(orjson.loads(text), text, duplicates)
        except orjson.JSONDecodeError:
            pass
    try:
        document = yaml_text.parse(text, NESTING_MAX)
    except YamlError as error:
        raise BadRequest(f"the body of the request is not valid YAML: {error}") from None
    if duplicates is not None:
        duplicates += document.duplicates
    return document.value


def _checked(value: Any, text: bytes, duplicates: list[str] | None) -> Any:
    # An opening bracket may also stand in a string: this only tells which texts need no closer look.
    if text.count(b"{") + text.count(b"[") > NESTING_MAX and not _is_shallow(value):
        raise BadRequest(f"the body of the request nests deeper than {NESTING_MAX} levels")
    if duplicates is not None and not _is_compact(value, text):
        duplicates += [f'duplicate field "{path}"' for path in json_duplicates.find(text)]
    return value


def _is_shallow(value: Any) -> bool:
    for _ in range(_ENCODER_NESTING_MAX - NESTING_MAX):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


def _is_compact(value: Any, text: bytes) -> bool:
    """Whether the text is exactly what would be written for its value: then it had no duplicates.

    It mostly is, from clients that write without spaces (kubectl, all of Go), and finding that out costs
    a twentieth of looking for duplicates.
    """
    written = orjson.dumps(value)
    return written == text or written == text.rstrip()
