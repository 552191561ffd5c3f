"""Storage: binds claims and volumes, provisions and deletes local volumes, protects those in use."""

from alcove.controllers.volumes.claims import ClaimBinder
from alcove.controllers.volumes.ephemeral import EphemeralClaims
from alcove.controllers.volumes.protection import ClaimProtection, VolumeProtection
from alcove.controllers.volumes.provisioner import LocalProvisioner
from alcove.controllers.volumes.volumes import VolumeController

__all__ = [
    "ClaimBinder",
    "ClaimProtection",
    "EphemeralClaims",
    "LocalProvisioner",
    "VolumeController",
    "VolumeProtection",
]
