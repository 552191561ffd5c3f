"""How exact meters are, and what they cost."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from alcove.agent.cgroups import CgroupLimits
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME
from alcove.testing.metered_lab import SPEC, MeteredLab, error_percent
from alcove.testing.nodes import Lab

Figures = dict[str, float]
PODS_METERED = 100


def exactness() -> Figures:
    return {"meter_error_percent": error_percent(19)}


def cost() -> Figures:
    """The meter's CPU time with PODS_METERED pods, if it reads once a minute and samples as often as it does."""
    samples = 6
    with Lab(2) as lab, TemporaryDirectory() as folder:
        metered = MeteredLab(lab, Path(folder))
        try:
            for number in range(PODS_METERED):
                tenant = f"c{number // 4}"
                key = PodKey(HOME, TenantId(tenant), "bench", f"p{number}", f"{number:032x}")
                metered.cgroups.ensure(f"{metered.top}/{tenant}/{key.directory_name}", CgroupLimits())
                metered.meter.pod_started(key, SPEC)
            before = time.process_time()
            for _ in range(samples):
                metered.meter.sample_memory()
            metered.read()
            used = time.process_time() - before
        finally:
            metered.cgroups.remove(metered.top)
    return {"meter_cpu_percent": 100 * used / 60}
