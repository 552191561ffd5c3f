"""DaemonSets: a pod on every node that wants one."""

from alcove.controllers.daemonsets.controller import DaemonSetController

__all__ = ["DaemonSetController"]
