"""Dedicated tenants at the home plane: their requests are forwarded to their own API servers."""
