"""Tools that tests share, ours and users': a local API server, virtual time, nodes made of namespaces."""
