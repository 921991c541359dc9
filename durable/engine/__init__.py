"""Many workflows: from a call to a commit and back.

The runner interprets one workflow body. The engine keeps thousands of them, and everything between the caller and the
store is in here. The rooms are listed from the inside out; each may import those above it, and `tests/test_house.py`
enforces that.

| room          | what it is                                                                                    |
|---------------|-----------------------------------------------------------------------------------------------|
| `config`      | every setting; one that no code reads does not exist                                          |
| `operations`  | every state change and every question as a value, and the values that follow from a decision  |
| `state`       | what the engine knows, and the only code that writes to the open batch                        |
| `decide`      | one file per noun: from an operation to what changes                                          |
| `repair`      | what an operator does to one workflow: retry, fork, repair                                    |
| `coordinator` | the thread: take, decide, commit, release                                                     |
| `host`        | what lives in the event loop of the service: activities, threads, the way back into the loop  |
| `remote`      | the way in from other processes, and the way of a client                                      |
| `api`         | what people call                                                                              |

One call, followed through the rooms:

1. `api`: `engine.send_event(...)` checks its arguments, packs the payload and makes a `SendEvent`.
2. `host`: the bridge puts it into the inbox of the coordinator and waits, in the loop of the service, for an answer.
3. `coordinator`: the thread takes everything that is queued, and looks up the decision for each operation.
4. `decide`: `decide_send_event` finds the workflow that waits and feeds its body. What the body asks for next, its end
   and the wake-up of its parent are all part of this one decision.
5. `state`: every change goes into the open batch, and later operations of the same batch already see it.
6. `coordinator`: the batch is committed in one transaction. Only then do replies and activities leave, in one call into
   the loop.
7. `host`: the loop runs the activities and resolves what callers wait for.

Two rules hold everywhere. Only the coordinator thread changes state. Nothing leaves before the commit.
"""
