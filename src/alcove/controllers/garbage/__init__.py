"""The garbage collector: objects go when all their owners are gone, and stay for them when they must."""

from alcove.controllers.garbage.collector import GarbageCollector

__all__ = ["GarbageCollector"]
