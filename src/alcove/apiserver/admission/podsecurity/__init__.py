"""Pod Security Standards: what a pod may have of its node.

    levels      privileged, baseline, restricted, and what a namespace's labels choose
    baseline    the checks that keep a pod from taking over its node
    restricted  the further checks of a hardened pod
    standards   which checks a level has at which version
    plugin      enforces, warns, notes for the audit

Every tenant but ring0 has a ceiling: whatever its namespaces' labels say, a pod that breaks the ceiling
is refused. The ceiling is `baseline` unless the server is told otherwise, or ring0 labels the Tenant
with `pod-security.kubernetes.io/enforce`. Ring0's own namespaces have no ceiling.
"""
