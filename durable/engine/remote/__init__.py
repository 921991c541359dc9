"""Operations on a wire: the JSON form of every operation that a caller can make, of its reply, and of an error.

An operation is a value, so it need not come from this process. The same `SendEvent` may be built by the façade, by a
client on the other side of a socket, or by another shard that writes a letter; one decision serves all three. This
folder knows only the form. It has no socket and no thread, and it decides nothing.

Follow one operation:

1. The sender calls `wire.write_operation(op)`, which returns `{"operation": name, "fields": {...}}`.
2. `wire.write_text` makes one line of JSON of it; on the other side `wire.read_text` reads the line.
3. `receiving.receive` turns the form into an operation that is ready to be decided. It reads the fields by their
   annotations, checks the limits that the façade checks for callers in this process, finds the code in the registry,
   and encodes the arguments as they are stored. After this step nothing shows where the operation came from.
4. The coordinator decides. `wire.write_reply` gives `{"reply": data}`, or `wire.write_error` gives
   `{"error": {"name", "message", "fields"}}`.
5. `wire.read_answer` returns the reply to the sender, or raises the error, so `except WorkflowNotFound` works there
   too.

What travels, and as what:

- *Operations* travel under the names in `wire.OPERATIONS`, a closed table. Any other name raises `NotSupported`,
  whatever its fields say. Operations that an engine makes for itself never travel: timers, results of activities,
  sweeps, recovery. They are listed in `wire.OWN`, and a test checks that every operation is in exactly one of the two.
- *Code* does not travel. A workflow is its name and version, and the receiver looks them up in its own registry. The
  type of an event's payload travels as its name, which is only shown in messages.
- *Payloads* are the JSON text that is stored: arguments, events, answers, results. Only a side that has the code
  decodes them.
- *Replies* have the type that the operation promises: `Operation[A]` replies with an `A`.
- *Errors* travel under their stored names (`stored_names`). A name that the reader does not know becomes `RemoteError`.

Two rules hold for everything that is read:

- The two sides may run different versions. Fields are matched by name, unknown ones are ignored, and new ones need a
  default. `tests/formats/wire.json` pins every form.
- The text comes from outside. Nothing in it is imported, looked up by path or executed: names are compared with tables,
  and every field is read strictly by its annotation. A `CodecError` says what does not fit, and where.

| you want to know | file |
|---|---|
| which operations travel, and how a form is written and read | `wire` |
| how a received operation is checked and completed | `receiving` |
| how an error crosses the wire | `errors` |
"""
