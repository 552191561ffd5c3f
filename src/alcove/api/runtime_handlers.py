"""The runtime handlers that nodes try: of these, a node says in its status which it has proven."""

HANDLERS = frozenset({"crun", "runc", "gvisor", "runsc", "hollow"})
