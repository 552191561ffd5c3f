"""What the verbs do: one file per verb, the same for stock kinds and custom ones."""
