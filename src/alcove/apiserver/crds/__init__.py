"""Custom resource definitions, per tenant: from a CRD to kinds that are served like any other.

kinds.py        CustomKinds: the kinds that a tenant is served, built-in kinds and those of its CRDs
compiled.py     one CRD → one Kind per version
strategy.py     defaults and validation of custom resources
columns.py      printer columns
conversion.py   conversion between versions, by apiVersion only or by webhook
acceptance.py   whether a CRD's names are accepted (its status)
definitions.py  the CRD kind itself: schema validation, and the status, which is set with the write
sharing.py      CRDs of ring0 that every tenant is served
removal.py      deletion of a CRD's objects before the CRD
"""
