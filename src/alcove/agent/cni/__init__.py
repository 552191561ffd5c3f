"""The CNI plugin for other container runtimes: a small program that forwards requests to the agent."""
