"""Foreign planes: `verb` has the commands, `preparation` what a stock API server needs, `manifests` the objects for that."""
