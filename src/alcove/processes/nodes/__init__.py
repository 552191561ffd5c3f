"""The two kinds of nodes that `alcove agent` can be: real ones, and hollow ones."""
