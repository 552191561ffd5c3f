"""The CNI plugin, for container runtimes that are not the agent's own: a small program that hands over to the agent."""
