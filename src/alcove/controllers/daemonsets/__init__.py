"""DaemonSets: a pod on every eligible node."""

from alcove.controllers.daemonsets.controller import DaemonSetController

__all__ = ["DaemonSetController"]
