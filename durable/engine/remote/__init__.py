"""Asking an engine from another process: operations and replies as lines of JSON, over a socket of this machine.

An operation is a value, so it need not come from this process. The same `SendEvent` may be built by the façade, by a
client on the other side of a socket, or by another shard that writes a letter; one decision serves all three. This
folder knows the form and the way. It decides nothing in an engine, and does not know the life of one.

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

How a line travels over the socket:

1. `address.listen` opens the socket of an engine, in a private directory. The engine announces its path in the lock
   file of the store. `connection.Connection.open` connects; each side checks that the other belongs to the same user.
2. Both say hello (`frames.Hello`), with the version of their protocol and of durable.
3. `Connection.ask` writes an ask with a number. `guest.Guest` reads it and starts a task, so answers come in any order.
4. The task receives the operation, has it answered by the engine, and writes one line with the same number.
5. When the engine stops, `server.ControlServer` says so in the last line of every connection. Every open ask raises
   `ConnectionLost`; the caller looks for the next owner of the store, and may repeat its call with the same request id.

What a client does (`client_way.ClientWay`):

1. It finds the socket in the lock file of the store, connects on first use, and asks. A change gets a request id, so
   that a repeat counts once: the coordinator stores the answer in the commit of the change.
2. When the connection is lost, it looks for the owner again and repeats the question, until its timeout.
3. If nobody can be asked, it opens the file itself (`without_engine`). Questions are answered by the decisions of the
   engine, over a state without code that is thrown away. A start or an event is stored for the next engine, which
   decides it before any timer or call. `overlay` shows both as if they were there already.

The server runs in the engine's event loop. So everything that a client can cause is bounded: the length of a line,
before it has arrived; asks and connections; the time for taking an answer. Encoding a long list and decoding a big
request leave the loop to others. A client that breaks a rule loses its connection, and no other client notices.

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
| what a line may hold, and how long it may be | `frames` |
| who is on the other side of a socket, and how bytes come and go | `sockets` |
| where the socket of an engine is | `address` |
| which clients are let in, and how a server stops | `server` |
| how one client is served, and what it cannot do | `guest` |
| how a client asks many things at once | `connection` |
| where a client asks, and what it does when its engine goes away | `client_way` |
| what a store file answers and keeps while no engine runs | `without_engine`, `overlay` |
"""
