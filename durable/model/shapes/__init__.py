"""How a value becomes JSON data by its annotation, and comes back: the parts of `codec`."""
