"""How a value becomes JSON data by its annotation, and comes back: the parts of `codec`.

A *shape* is a pair of functions for one annotation: `write` turns a value into JSON data, `read` turns the data back.
`converter` is a cattrs converter with one hook per shape. A shape of a container asks the converter for the shapes of
its members, so that a shape is built once per annotation and then only called.

Follow a value of type `dict[str, Decimal | None]`. `Coder` asks the converter for both directions. The converter
resolves aliases first (`aliases`), then takes the last entry of its table `_SHAPES` that matches: the shape of a
dict. That asks for the shape of the union, which leaves None as it is and writes the decimal as text. Then `Coder`
reads the data back and calls `difference` (`sameness`), which is stricter than `==`: 1, 1.0 and True are different.
If anything changed, the value is refused with the part that changed.

Two kinds of types take another way. A type of pydantic, or one that only pydantic understands, is left to pydantic if
the program has loaded it (`pydantic_types`); this package never imports it. Times with a named zone are written in the
form of RFC 9557 (`zones`), because ISO text keeps the offset and loses the zone.

What must hold: a value is stored exactly or not at all. The JSON forms are stored formats, and old stores must remain
readable. Equal values give equal texts, so sets are sorted by the text of their members. Members of a union are told
apart by the names in a table of that union, never by a lookup of a stored name.

Errors here are ordinary exceptions, `Misfit` if the text was written for people. The codec turns all of them into
`CodecError`. Apart from `own_types`, which uses the codec, nothing here knows functions, workflows or stored text.

| file             | holds                                                                         |
|------------------|-------------------------------------------------------------------------------|
| `converter`      | the table of shapes, and the converter                                        |
| `aliases`        | what a type alias means                                                       |
| `pydantic_types` | models, adapters, secrets and validation errors of pydantic                   |
| `zones`          | times with a zone as text                                                     |
| `sameness`       | whether a value came back the same, and how to show one that did not          |
| `own_types`      | values written without the annotation, such as the answer to a pause          |
"""
