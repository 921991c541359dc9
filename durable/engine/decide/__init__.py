"""From an operation to what changes: one file per noun.

A decision is a synchronous function `decide_...(turn, operation) -> reply`. It reads `turn.state`, runs bodies, changes
state through the verbs of `engine.state`, and adds effects for after the commit. It never waits and never does I/O of
its own. The time is `turn.now`, the same for the whole batch.

Follow an event through this room:

1. `events.decide_send_event` finds the waiting workflow and hands the event over.
2. `body.feed` records the entry and steps the body. `body.advance` does what the body now asks for: it opens and
   withdraws waits, row by row of the table of wait kinds (`coordinator.decisions.WAIT_KINDS`).
3. If the body has ended, `endings.mark_finished` ends the workflow.
4. What follows for other waits and other workflows is sent as a message (`operations.messages`), and handled in the
   same decision by a loop. So a child's end and the wake-up of its parent are one commit.

| file                                                       | noun                                                    |
|------------------------------------------------------------|---------------------------------------------------------|
| `start`, `differences`                                     | a workflow is started, or the same call found again     |
| `body`                                                     | load, feed, advance, settle: every step of every body   |
| `activities`, `timers`, `pauses`, `loops`, `children`      | what a body waits for                                   |
| `events`, `sending`, `event_types`, `misspelt`             | events on their way to a waiter                         |
| `kept_events`, `dead_letters`                              | events that nobody has taken, or will take              |
| `cancel`, `endings`, `kinship`                             | how a workflow stops, and who stops or wakes with it    |
| `recovery`, `retention`, `long_decisions`                  | what the engine does without being asked                |
| `queries`, `description`, `lists`, `published`, `watch`    | questions; they change nothing                          |
| `dry_run`                                                  | a body rebuilt only to look at it                       |

Rules:

- A decision changes rows only through `turn.state`. `tests/test_house.py` refuses any other access to the batch.
- An error of ours (`DurableError`) refuses the operation, and must be raised before anything has changed.
- One bad row never stops other workflows: decisions that read somebody else's row expect a `CodecError`.
- A wait is never registered while an event that it may take is pending. Suspend-and-check is one decision.
"""
