"""Exceptions taken apart and rebuilt: the parts of `error_codec`.

A body that catches an error must see the same error on every replay: the same class, the same arguments, the same
attributes. So an error is stored in parts, and it is rebuilt from them without its constructor. Running a constructor
would be wrong (its side effects happened when the error was first raised) and unsafe: the row says which class.

Follow an error that an activity raised. `error_codec` reads its arguments and attributes with `raw`, past any property
or `__getattr__`. `values` writes each as JSON data; what has no exact form becomes its text, and a note on the error
says so. The class is stored by the name from `stored_names`. On a replay the name leads back to a class, if that class
is loaded (`classes`). `raw` makes a blank instance through `__new__` of Python's own exception and fills in the
arguments, the `__dict__` and the slots. If the class is not loaded, or cannot be rebuilt like this, the body gets
`ActivityFailed` with the name, the message and the traceback as text.

What must hold:

- Reading runs no code of a user's class. Writing may run some: `str(error)`, and `repr` or a field of a value. That
  code may raise anything, and writing survives it.
- Nothing is imported, and nothing is looked up outside the modules that are already loaded.
- Everything is bounded: length, depth and number of parts. An error can hold anything, also itself.
- C code of Python trusts some fields of its own exceptions. Those are set by code that checks them (`raw`).
- Names of classes are stored formats. A class of durable that moves keeps its stored name.

| file           | holds                                                                    |
|----------------|--------------------------------------------------------------------------|
| `classes`      | a class by its dotted name, and the parts of a class                     |
| `raw`          | the parts of an exception, read and set past all code of its class       |
| `values`       | arguments and attributes as JSON data, and back                          |
| `stored_names` | the names under which durable's own classes are stored                   |
"""
