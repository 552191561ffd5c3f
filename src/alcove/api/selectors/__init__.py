"""Label and field selectors: parsed once, then asked about every object of a list or watch.

requirements  one requirement on labels, checked, and the test it becomes
labels        several of them: a selector of objects by their labels
query         the form that query strings have
fields        selectors by fields

What is wrong with a selector is a `BadRequest` in Kubernetes' words.
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
