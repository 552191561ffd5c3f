"""All functions an expression may call, as in Kubernetes 1.37."""

from alcove.api.cel.declarations import merge
from alcove.api.cel.library.formats import FORMATS
from alcove.api.cel.library.formatting import FORMATTING
from alcove.api.cel.library.lists import LISTS
from alcove.api.cel.library.network import NETWORK
from alcove.api.cel.library.optionals import OPTIONALS
from alcove.api.cel.library.quantities import QUANTITIES
from alcove.api.cel.library.regex import REGEX
from alcove.api.cel.library.semver import SEMVER
from alcove.api.cel.library.sets import SETS
from alcove.api.cel.library.standard import STANDARD
from alcove.api.cel.library.strings import STRINGS
from alcove.api.cel.library.urls import URLS

KUBERNETES = merge(
    (
        STANDARD,
        OPTIONALS,
        STRINGS,
        FORMATTING,
        LISTS,
        SETS,
        REGEX,
        URLS,
        NETWORK,
        QUANTITIES,
        SEMVER,
        FORMATS,
    )
)
