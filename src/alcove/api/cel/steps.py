"""What a planned expression is made of."""

from collections.abc import Callable
from typing import Any

Frame = list[Any]
"""The budget, then the variables, then room for the variables of comprehensions."""
Step = Callable[[Frame], Any]
