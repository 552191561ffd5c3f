"""Network providers: what each type of network is made of, one file per type."""
