"""Who is asking: certificates, tokens, and the identity that each of them stands for."""
