"""The handlers of the API verbs: one file per verb, for built-in kinds and custom resources alike."""
