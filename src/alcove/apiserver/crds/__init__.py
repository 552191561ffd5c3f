"""Custom resource definitions, per tenant: from a CRD to kinds that are served like any other.

kinds.py        CustomKinds: what a tenant is served, stock kinds and its CRDs' kinds
compiled.py     one CRD → one Kind per version
strategy.py     defaults and checks of custom resources
columns.py      printer columns
conversion.py   between versions, by name or by webhook
acceptance.py   whether a CRD gets the names it asks for (its status)
definitions.py  the CRD kind itself: schema checks, status at once with the write
sharing.py      CRDs of ring0 that every tenant is served
removal.py      what deleting a CRD takes along
"""
