"""Nodes that already have the pod's images score higher, by image size.

An image counts in proportion to the number of nodes that have it, so that a single node with it does not get
every pod. Images of image volumes count like those of containers, but do not raise the maximum.
"""

import numpy as np

from alcove.scheduler.arrays import Ints, Rows
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores.base import BEST, Score

_MEBIBYTE = 1024 * 1024
BYTES_MIN = 23 * _MEBIBYTE
BYTES_PER_CONTAINER_MAX = 1000 * _MEBIBYTE


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
        maximum = BYTES_PER_CONTAINER_MAX * max(1, pod.shape.containers)
        counted = np.clip(bytes_here, BYTES_MIN, maximum)
        chosen: Ints = (BEST * (counted - BYTES_MIN) // (maximum - BYTES_MIN))[rows]
        return chosen
