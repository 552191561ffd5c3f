"""The Common Expression Language (CEL) with Kubernetes' libraries: CRD rules and admission policies.

    source ─▶ lexer ─▶ parser (expands macros) ─▶ checker (types) ─▶ planner ─▶ Program
                                                                        Program.evaluate(values, budget)

An expression is checked against declared types before it is stored, and planned once into Python closures.
Values are plain JSON values, read in place: nothing is converted that an expression does not read. Evaluation
spends a `CostBudget`, so no tenant's rule can block the server.

`environment.CelEnvironment` is the entry point. Nothing here is imported until a tenant uses CEL.
"""
