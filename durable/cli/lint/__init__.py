"""Finds mistakes in workflow functions by reading them: `python -m durable lint`. Never imports what it reads.

From the ground up: `codes` (what there is to find), `scopes` and `meanings` (what a name stands for), `vocabulary` and
`foreign` (which names matter), `bodies` (which functions are workflows, and what they call), `checks_*` (one file for
each sort of mistake), `findings` (all of it over some files), `files` and `command`.
"""
