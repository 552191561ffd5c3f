"""A flood of LISTs from one tenant: `python -m bench.flood PORT CERTIFICATE SECONDS PATH`, 64 connections."""

import itertools
import ssl
import sys

import uvloop

from bench import load

CONNECTIONS = 64


async def main(port: int, pair: str, seconds: float, path: str) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    tls.load_cert_chain(pair)
    request = load.request("GET", path, {"Accept": "application/json", "User-Agent": "flood"})
    await load.run("127.0.0.1", port, tls, CONNECTIONS, seconds, lambda: itertools.repeat(request))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]))
