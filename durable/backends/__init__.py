"""Where workflows are stored: the protocol (`base`) and the stores behind it."""
