"""Nodes that have the pod's images already are better, the more the larger the images are.

An image counts in proportion to the nodes that have it, lest one node that has it gets every pod. Images
that are mounted count as those of containers do, but raise no bound.
"""

import numpy as np

from alcove.scheduler.arrays import Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import BEST, Score

_MEBIBYTE = 1024 * 1024
BYTES_LEAST = 23 * _MEBIBYTE
BYTES_MOST_PER_CONTAINER = 1000 * _MEBIBYTE


class ImageLocality(Score):
    name = "ImageLocality"
    scope = FilterScope.NODE

    def applies(self, cache: SchedulerCache, pod: SchedulerPod) -> bool:
        images = cache.nodes.images
        return bool(images) and any(image in images for image in pod.shape.images)

    def raw(self, cache: SchedulerCache, pod: SchedulerPod, rows: Rows) -> Ints:
        nodes = cache.nodes
        bytes_here = np.zeros(nodes.size, dtype=np.int64)
        for image in pod.shape.images:
            having = nodes.images.get(image, {})
            share = len(having) / nodes.count if nodes.count else 0.0
            for slot, size in having.items():
                bytes_here[slot] += int(size * share)
        most = BYTES_MOST_PER_CONTAINER * max(1, pod.shape.containers)
        counted = np.clip(bytes_here, BYTES_LEAST, most)
        chosen: Ints = (BEST * (counted - BYTES_LEAST) // (most - BYTES_LEAST))[rows]
        return chosen
