"""`doctor`: what is wrong with a store, and what to do about it.

First the facts are read (`durable.backends.sqlite.survey`), from the file: the doctor must be able to say why no engine
answers. An engine is only asked whether it answers at all. Then `checks` makes findings of the facts. A check is a pure
function from facts to findings, so each is tested with values, and a new one is a function and a line in its table.
`command` prints the findings.

A finding says what is wrong, how many runs are concerned, a few of their ids, and what to do. The doctor changes
nothing, and ends with 1 if it has found something.
"""
