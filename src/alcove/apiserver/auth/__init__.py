"""Authentication: certificates, tokens, and the identities they prove."""
