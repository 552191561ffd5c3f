"""Priority and fairness between a tenant's own users: FlowSchemas and PriorityLevelConfigurations.

What a tenant gets of the server is decided before, by its weight (`apiserver/flow.py`). Here its seats are divided between
its priority levels. A tenant that has stored no object of these kinds is not divided, and pays nothing for them.
"""
