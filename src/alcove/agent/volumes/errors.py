"""Why a pod's volumes are not there: the pod waits in ContainerCreating, an event says this, and it is tried again."""

import os


class VolumeFailure(Exception):
    def __init__(self, message: str, reason: str = "FailedMount") -> None:
        super().__init__(message)
        self.reason = reason
        """The event's."""
        self.message = message


def of_volume(volume: str, why: object) -> VolumeFailure:
    """In the words that users know from kubelet."""
    return VolumeFailure(f'MountVolume.SetUp failed for volume "{volume}" : {tenant_message(why)}')


def tenant_message(why: object) -> str:
    """What a tenant may read: where on the node something went wrong is not its business."""
    if isinstance(why, OSError) and why.errno is not None:
        return os.strerror(why.errno)
    return str(why)
