"""Admission policies in CEL: what `admission/policy.py` is made of.

    hooks.py       a tenant's policies with their bindings
    variables.py   what expressions may read: object, request, params, authorizer, …
    compiled.py    a policy's expressions, compiled
    matching.py    which writes a policy or binding is about
    params.py      the parameter objects a binding names
    validating.py  a policy's verdict on one write
    mutating.py    a policy's changes of one write

CEL is loaded with `compiled.py`, when a tenant has a policy.
"""
