"""What a caller may do: roles and bindings of its own tenant, compiled once and asked often."""
