"""Creates of services, which get their address in the request, against creates of ConfigMaps."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import Any

import orjson

HERE = "/api/v1/namespaces/default"
NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
NETWORK = {
    "metadata": {"name": "default"},
    "spec": {"type": "flat", "service": {"cidrs": ["10.0.0.0/9"]}},
}

Post = Callable[[str, bytes], bytes]
Rate = Callable[[Any], Any]
"""Given requests, measures how many of them are answered in a second."""


def config_map(name: str) -> tuple[str, bytes]:
    metadata = {"name": name, "labels": {"app": "web"}}
    return f"{HERE}/configmaps", orjson.dumps({"metadata": metadata, "data": {"mode": "production"}})


def service(name: str) -> tuple[str, bytes]:
    metadata = {"name": name, "labels": {"app": "web"}}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    return f"{HERE}/services", orjson.dumps({"metadata": metadata, "spec": spec})


async def measure(rate: Rate, post: Post, rounds: int) -> dict[str, float]:
    """Alternating, so that both meet the same noise."""
    figures: dict[str, list[float]] = {"create_configmap_per_s": [], "create_service_per_s": []}
    for number in range(rounds):
        for figure, build in zip(figures, (config_map, service), strict=True):
            names = (f"r{number}-{each}" for each in itertools.count())
            figures[figure].append(await rate(lambda n=names, b=build: (post(*b(each)) for each in n)))
    return {figure: statistics.median(rates) for figure, rates in figures.items()}
