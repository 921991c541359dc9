"""From an operation to what changes: one file per noun.

A decision is a synchronous function `decide_...(turn, operation) -> reply`. It reads `turn.state`, runs bodies, changes
state through the verbs of `engine.state`, and adds effects for after the commit. It never waits and does no I/O itself.
The time is `turn.now`, the same for the whole batch.

Follow an event through this room:

1. `events.decide_send_event` finds the waiting workflow and hands the event over.
2. `body.feed` records the entry and steps the body. `body.advance` does what the body now asks for: it opens and
   withdraws waits, row by row of the table of wait kinds (`coordinator.decisions.WAIT_KINDS`).
3. If the body has ended, `endings.mark_finished` ends the workflow.
4. What follows for other waits and other workflows is sent as a message (`operations.messages`), and handled in the
   same decision by a loop. So a child's end and the wake-up of its parent are one commit.

| file                                                   | noun                                                        |
|--------------------------------------------------------|-------------------------------------------------------------|
| `start`                                                | a workflow is started, or the same call found again         |
| `body`                                                 | load, feed, advance, settle: every step of every body       |
| `activities`, `timers`, `pauses`, `children`           | what a body waits for                                       |
| `waits`                                                | rows of waits, and what other shards know of them           |
| `events`, `sending`, `named`, `misspelt`               | events on their way to a waiter                             |
| `kept_events`                                          | events that are not taken yet: waits, operators, the sweep  |
| `cancel`, `endings`                                    | how a workflow stops, and how events become dead letters    |
| `schedules`                                            | schedules and their ticks                                   |
| `recovery`                                             | what the engine does first after it was opened              |
| `queries`                                              | questions; they change nothing                              |
| `dry_run`                                              | a body rebuilt only to look at it                           |
| `letters`                                              | messages from other shards                                  |
| `facts`                                                | what observers are told, after the commit                   |
| `turn`                                                 | what decisions share, and the way that their messages take  |

Rules:

- A decision changes rows only through `turn.state`. `tests/test_house.py` refuses any other access to the batch.
- An error of ours (`DurableError`) refuses the operation, and must be raised before anything has changed.
- One bad row never stops other workflows: decisions that read the row of another workflow expect a `CodecError`.
- A wait is never registered while an event that it may take is pending. Suspend-and-check is one decision.

**Letters.** A store may have several shards, each with its own coordinator. A decision changes only its own shard. A
message for a workflow of another shard becomes a letter, and `Turn.send` chooses: it sends the message to the loop of
step 4 if the addressee lives here, and posts a letter otherwise. The letter is written in the commit of the decision
that sends it, and deleted in the commit of the decision that handles it, so its message takes effect exactly once.

Follow a child whose id belongs to another shard:

1. `children.check_child` finds that the child lives elsewhere. `waits.note_question` stores a row for the wait: the
   row is the memory that the question was asked. `Turn.send` posts `StartChild`.
2. The child's shard reads the letter (`letters.decide_read_letter`). `letters.start_child` stores the child
   and a *guest* row for the parent's wait. The child's body runs after that commit.
3. The child ends. `children.wake_parent` finds the guest row, drops it and posts `ChildEnded`.
4. The parent's shard reads that letter. `waits.hear` puts the answer into the row of the wait and has the wait
   looked at, and `body.is_answered` feeds it to the body. If the parent is parked, the answer stays in the row.

An untargeted event belongs to the shard of its name and key, its *home*. A workflow of another shard registers its wait
there as a guest (`waits`), and an event that fits is offered to it by letter. The wait may be over when the offer
arrives, or the workflow may be parked: then the event goes back (`letters`).

With one shard, `Turn.send` only passes the message on, and no letter is ever written.
"""
