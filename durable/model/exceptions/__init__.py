"""Exceptions taken apart and put together again: the parts of `error_codec`."""
