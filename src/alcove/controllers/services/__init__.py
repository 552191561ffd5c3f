"""Services: their addresses, which are their network's."""
