"""Authorization: the roles and bindings of the caller's tenant, compiled once and evaluated often."""
