"""Sleep of tenants: which tenants are asleep, and the end of their pods."""

from alcove.controllers.sleep.controller import SleepController
from alcove.controllers.sleep.pods import SleepingPods

__all__ = ["SleepController", "SleepingPods"]
