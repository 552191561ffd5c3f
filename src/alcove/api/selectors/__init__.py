"""Label and field selectors: parsed once, then evaluated for every object of a list or watch.

requirements  one label requirement, validated, and its test function
labels        label selectors: all of several requirements
query         the query-string form of label selectors
fields        field selectors

An invalid selector raises `BadRequest` with Kubernetes' message.
"""

from alcove.api.selectors.fields import ALL_FIELDS, FieldSelector, FieldTerm, parse_fields
from alcove.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    from_labels,
    from_object,
    from_pair,
)
from alcove.api.selectors.query import parse
from alcove.api.selectors.requirements import Labels, Operator, Requirement, requirement

__all__ = [
    "ALL_FIELDS",
    "EVERYTHING",
    "NOTHING",
    "FieldSelector",
    "FieldTerm",
    "LabelSelector",
    "Labels",
    "Operator",
    "Requirement",
    "from_labels",
    "from_object",
    "from_pair",
    "parse",
    "parse_fields",
    "requirement",
]
