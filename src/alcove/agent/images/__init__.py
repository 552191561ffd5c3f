"""Images: the built-in one, archives and registries; each unpacked once, with a layer of its own per container."""
