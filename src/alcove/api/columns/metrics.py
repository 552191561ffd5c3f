"""Columns of metrics.k8s.io."""

from alcove.api import quantity
from alcove.api.columns.base import NAME, at
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object


def _usages(obj: Object) -> list[Object]:
    """Return the usage of the object itself, or of its containers."""
    holders = [obj, *(obj.get("containers") or ())]
    return [usage for each in holders if (usage := each.get("usage"))]


def _cpu(obj: Object, _now: float) -> str:
    return f"{sum(quantity.of(each.get('cpu', 0)).nano for each in _usages(obj))}n"


def _memory(obj: Object, _now: float) -> str:
    return f"{sum(quantity.whole(each.get('memory', 0)) for each in _usages(obj)) >> 10}Ki"


_CPU = PrinterColumn("CPU", _cpu, description="CPU usage in cores.")
_MEMORY = PrinterColumn("Memory", _memory, description="Memory usage (working set).")
_WINDOW = PrinterColumn("Window", at("window"), description="Window of the CPU measurement.")

COLUMNS = (NAME, _CPU, _MEMORY, _WINDOW)
