"""Volumes of pods: files made of objects, empty folders, persistent volumes; each tenant's out of others' reach."""

from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.mounts import VolumePath
from alcove.agent.volumes.volumes import PodVolumes

__all__ = ["PodVolumes", "VolumeFailure", "VolumePath"]
