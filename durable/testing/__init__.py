"""The public test kit: what helps to test workflows, engines and stores.

`conformance` says what a store must do, `faults` makes one fail on purpose, `simulation` runs engines from a seed.
Imports no pytest; nothing in durable imports this.
"""
