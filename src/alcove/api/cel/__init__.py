"""The Common Expression Language as Kubernetes speaks it: CRD rules and admission policies.

    source ─▶ lexer ─▶ parser (expands macros) ─▶ checker (types) ─▶ planner ─▶ Program
                                                                        Program.evaluate(values, budget)

An expression is checked against declared types before it is stored, and planned once into Python
closures. Values are plain JSON values, read in place: nothing is converted that an expression does
not touch. Evaluation spends a `Budget`, so no tenant's rule can hold up the server.

`environment.Environment` is the door. Nothing here is imported until a tenant uses CEL.
"""
