"""The node agent: pods of every plane, run on this node in sandboxes, in their own networks."""
