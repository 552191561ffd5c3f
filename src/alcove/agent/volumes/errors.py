"""Volume errors. The pod stays in ContainerCreating, an event has the reason and message, and the agent
retries."""

import os


class VolumeFailure(Exception):
    def __init__(self, message: str, reason: str = "FailedMount") -> None:
        super().__init__(message)
        self.reason = reason
        """The reason of the event."""
        self.message = message


def mount_failure(volume: str, error: object) -> VolumeFailure:
    """The failure of one volume, with kubelet's message."""
    return VolumeFailure(f'MountVolume.SetUp failed for volume "{volume}" : {tenant_message(error)}')


def tenant_message(error: object) -> str:
    """The error's message for tenants, without paths of the node."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error)
