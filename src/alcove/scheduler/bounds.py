"""Limits on a pod's spec, so that evaluating it is bounded work.

They are far above real use, and far below what fits into one object: 30,000 expressions in one selector would
block all tenants for seconds. A pod that exceeds a limit stays pending, with the limit as the reason.
"""

POD_TERMS_MAX = 64
"""For pod affinity terms, and for spread constraints."""
SELECTOR_REQUIREMENTS_MAX = 128
"""In all label selectors of affinity terms and spread constraints together."""
SELECTOR_VALUES_MAX = 1024
NODE_TERMS_MAX = 256
NODE_REQUIREMENTS_MAX = 1024
"""In `nodeSelector` and all terms of node affinity together."""
TOLERATIONS_MAX = 256
HOST_PORTS_MAX = 1024
VOLUMES_MAX = 256
"""Claims and inline disks."""


class SpecTooLarge(ValueError):
    pass


def bound(description: str, count: int, maximum: int) -> None:
    """Raises SpecTooLarge if `count` exceeds `maximum`. `description` has {} for the count."""
    if count > maximum:
        raise SpecTooLarge(f"{description.format(count)}, the maximum is {maximum}")
