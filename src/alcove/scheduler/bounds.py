"""How much a pod may ask for, so that judging it stays bounded work whatever is written into its spec.

Far more than anybody needs, and far less than fits into one object: 30,000 expressions in one selector
would keep all tenants waiting for seconds. A pod that asks for more stays pending, and is told so.
"""

POD_TERMS_MAX = 64
"""Terms of pod affinity; and spread constraints."""
SELECTOR_REQUIREMENTS_MAX = 128
"""In all label selectors of affinity terms and spread constraints together."""
SELECTOR_VALUES_MAX = 1024
NODE_TERMS_MAX = 256
NODE_REQUIREMENTS_MAX = 1024
"""In `nodeSelector` and all terms of node affinity together."""
TOLERATIONS_MAX = 256
HOST_PORTS_MAX = 1024
VOLUMES_MAX = 256
"""Claims, and disks that the pod names itself."""


class SpecTooLarge(ValueError):
    pass


def bound(what: str, count: int, most: int) -> None:
    """`what` says it with {} for the number. Raises TooMuch."""
    if count > most:
        raise SpecTooLarge(f"{what.format(count)}, the most is {most}")
