"""Kubernetes' URL functions."""

from alcove.api.cel.budget import parse_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.types import BOOL, STRING, list_of, map_of, opaque
from alcove.api.cel.values import Opaque
from alcove.api.urls import Url, UrlError, is_request_uri, parse_request_uri

URLS = Library()
URL = opaque("kubernetes.URL")


class UrlValue(Opaque):
    __slots__ = ("url",)
    cel_type = URL

    def __init__(self, url: Url) -> None:
        self.url = url

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlValue) and self.url.text == other.url.text

    def __hash__(self) -> int:
        return hash(self.url.text)


@URLS.function("url", (STRING,), URL, cost=parse_cost)
def _url(text: str) -> UrlValue:
    try:
        return UrlValue(parse_request_uri(text))
    except UrlError as error:
        raise CelError(f'URL parse error during conversion from string: parse "{text}": {error}') from error


URLS.function("isURL", (STRING,), BOOL, cost=parse_cost)(is_request_uri)
URLS.member("getScheme", (URL,), STRING)(lambda value: value.url.scheme)
URLS.member("getHost", (URL,), STRING)(lambda value: value.url.host)
URLS.member("getHostname", (URL,), STRING)(lambda value: value.url.hostname)
URLS.member("getPort", (URL,), STRING)(lambda value: value.url.port)
URLS.member("getEscapedPath", (URL,), STRING)(lambda value: value.url.escaped_path)
URLS.member("getQuery", (URL,), map_of(STRING, list_of(STRING)))(lambda value: value.url.query)
