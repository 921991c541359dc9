"""The public test kit: what helps to test workflows, engines and stores.

`conformance` says what a store must do, `faults` makes one fail on purpose. Imports no pytest; nothing in durable
imports this.
"""
