"""The garbage collector: deletes objects whose owners no longer exist, and orders foreground deletion."""

from alcove.controllers.garbage.collector import GarbageCollector

__all__ = ["GarbageCollector"]
