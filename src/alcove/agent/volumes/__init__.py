"""Volumes of pods: projected files, emptyDir, persistent and image volumes. Tenants cannot reach each
other's."""

from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.mounts import VolumePath
from alcove.agent.volumes.volumes import PodVolumes

__all__ = ["PodVolumes", "VolumeFailure", "VolumePath"]
