"""Admission policies in CEL: the parts of `admission/policy.py`.

    hooks.py       a tenant's policies with their bindings
    variables.py   the variables of expressions: object, request, params, authorizer, …
    compiled.py    a policy's expressions, compiled
    matching.py    which writes a policy or binding matches
    params.py      the parameter objects of a binding
    validating.py  evaluates a validating policy for one write
    mutating.py    applies a mutating policy to one write

CEL is loaded with `compiled.py`, if a tenant has a policy.
"""
