"""URLs as Go's net/url parses them, which defines Kubernetes' `uri` format and CEL's `url()`."""

import re
from urllib.parse import quote, unquote

from msgspec import Struct

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT = re.compile(r"(?::[0-9]*)?")
# Go accepts these characters in host names, anything beyond ASCII, and escapes of it.
_HOST_FORBIDDEN = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]")
_PATH_SAFE = "-_.~!$&'()*+,;=:@/"
_VALID_PATH = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@/%\[\]]*")


class UrlError(ValueError):
    """The text is not a URL; the message is Go's, without the URL."""


class Url(Struct, frozen=True):
    text: str
    scheme: str
    host: str
    """Includes the port and the brackets of an IPv6 address."""
    raw_path: str
    raw_query: str

    @property
    def hostname(self) -> str:
        return self._split_host()[0]

    @property
    def port(self) -> str:
        return self._split_host()[1]

    def _split_host(self) -> tuple[str, str]:
        if self.host.startswith("["):
            name, _, rest = self.host[1:].partition("]")
            return name, rest.removeprefix(":")
        name, _, port = self.host.rpartition(":") if ":" in self.host else (self.host, "", "")
        return name, port

    @property
    def escaped_path(self) -> str:
        if _VALID_PATH.fullmatch(self.raw_path):
            return self.raw_path
        return quote(unquote(self.raw_path), safe=_PATH_SAFE)

    @property
    def query(self) -> dict[str, list[str]]:
        parameters: dict[str, list[str]] = {}
        for pair in self.raw_query.split("&"):
            if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
                continue
            key, _, value = (part.replace("+", " ") for part in pair.partition("="))
            parameters.setdefault(unquote(key), []).append(unquote(value))
        return parameters


def parse_request_uri(text: str) -> Url:
    """Parse an absolute URL or an absolute path. Raises UrlError."""
    _parse(text, via_request=True)
    # A fragment is part of the path or query in a request URI; the second parse removes it.
    return _parse(text.partition("#")[0], via_request=False)


def is_request_uri(text: str) -> bool:
    try:
        _parse(text, via_request=True)
    except UrlError:
        return False
    return True


def _parse(text: str, *, via_request: bool) -> Url:
    if any(char < " " or char == "\x7f" for char in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and via_request:
        raise UrlError("empty url")
    if text == "*":
        return Url(text, "", "", "*", "")
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest, _, query = text[match.end() if match else 0 :].partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(text, scheme, "", "", query)
        if via_request:
            raise UrlError("invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or (not via_request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    _check_escapes(rest)
    return Url(text, scheme, host, rest, query)


def _check_escapes(text: str) -> None:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise UrlError(f'invalid URL escape "{bad.group()}"')


def _host(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at and not _USERINFO.fullmatch(userinfo):
        raise UrlError("net/url: invalid userinfo")
    _check_escapes(userinfo)
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise UrlError("missing ']' in host")
        port = host[end + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
        if colon >= 0 and ":" in host[:colon]:
            port = host[host.find(":") :]
    if not _PORT.fullmatch(port):
        raise UrlError(f'invalid port "{port}" after host')
    forbidden = _HOST_FORBIDDEN.search(host)
    if forbidden:
        raise UrlError(f'invalid character "{forbidden.group()}" in host name')
    _check_escapes(host)
    return unquote(host)
