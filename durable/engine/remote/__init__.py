"""Operations on a wire.

An operation is a value, so it need not come from this process. The same `SendEvent` may be built by the façade here, by
a client on the other side of a socket, or by another shard that writes a letter; one decision serves all three. This
folder has the form in which operations, replies and errors travel: JSON objects. It knows no socket and no thread, and
it decides nothing.

What travels, and as what:

- *An operation* is `{"operation": name, "fields": {...}}`. The names are a closed table in `wire`. A name that is not
  in it is refused with `NotSupported`, whatever the fields say.
- *Code* does not travel. A workflow is its name and version, and the receiver looks them up in its own registry. The
  type of an event's payload is its name, for messages only.
- *Payloads* are the JSON text that is stored: arguments, events, answers, results. Whoever has the code reads them.
- *A reply* is `{"reply": data}`, by the type that the operation promises: `Operation[A]` replies with an `A`.
- *An error* is `{"error": {"name", "message", "fields"}}`, under its stored name (`stored_names`), so that
  `except WorkflowNotFound` works on the other side. A name that is unknown there arrives as `RemoteError`.

The two sides may run different versions. So fields are found by name, unknown ones are ignored, and new ones need a
default. `tests/formats/wire.json` pins every form.

What is read was written by somebody else. Nothing in it is imported, looked up by path or executed: names are compared
with tables, and every field is read strictly by its annotation. What does not fit is a `CodecError` that says where.

The way in is `receiving.receive`: read the form, check it as the façade checks its callers, find the code, and bring
the arguments into the form in which they are stored. What comes out is an operation like any other.

The engine's own operations never travel: timers, answers of activities, sweeps, recovery. `wire.OWN` lists them, and a
test holds that every operation stands in exactly one of the two tables.
"""
