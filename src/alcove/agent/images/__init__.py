"""Container images from registries, archives and the built-in one: unpacked once, with a writable layer per
container."""
