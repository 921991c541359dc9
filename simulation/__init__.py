"""Whole engines in one thread, in virtual time, from one seed: `python -m simulation --seed 7`.

From the ground up: `steps` and `rows` (random programs, how they run and which results are right), `scenario` with
`planning` (what clients do and what goes wrong, as one value), `world` with `process`, `clients` and `people` (it
happens), `ledger` with `mail` (what all commits add up to), `rules` with `queueing`, `pausing`, `family`, `undone`,
`told` and `ticking`, `checker` and `rest` (the invariants), `shrink` and `runs`.
"""
