"""Pod Security Standards: limit the access of pods to their node.

    levels      privileged, baseline, restricted, and the policy of a namespace's labels
    baseline    the checks that prevent known privilege escalations
    restricted  the further checks for hardened pods
    standards   the checks of a level at a version
    plugin      enforces, warns, adds audit annotations

Every tenant except ring0 has a ceiling: whatever its namespaces' labels say, a pod that violates the ceiling
is rejected. The ceiling is `baseline` unless the server is configured otherwise, or `spec.podSecurity` of the
Tenant, which only ring0 writes, says otherwise. Ring0's namespaces have no ceiling.
"""
