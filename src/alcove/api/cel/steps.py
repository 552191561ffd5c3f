"""Types of a planned expression."""

from collections.abc import Callable
from typing import Any

Frame = list[Any]
"""The budget, then the variables, then slots for the variables of comprehensions."""
Step = Callable[[Frame], Any]
