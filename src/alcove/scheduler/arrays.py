"""The scheduler's array types: one element per node slot."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Ids = NDArray[np.int32]
Rows = slice | NDArray[np.intp]
"""The slots to compute: `EVERY`, or the few that changed."""

EVERY: Rows = slice(None)


def rows_of(slots: Sequence[int]) -> NDArray[np.intp]:
    return np.array(slots, dtype=np.intp)
