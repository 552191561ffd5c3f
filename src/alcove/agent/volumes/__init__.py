"""Volumes of pods: files made of objects, empty folders, persistent volumes; each tenant's out of others' reach."""

from alcove.agent.volumes.failure import VolumeFailure
from alcove.agent.volumes.mounts import VolumePath
from alcove.agent.volumes.volumes import Volumes

__all__ = ["VolumeFailure", "VolumePath", "Volumes"]
