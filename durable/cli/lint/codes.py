"""Every code of the lint: what it means, why it matters, and what to write instead.

Only a table. `docs/checks.md` shows it, and the tests run both examples of each rule.

DUR000 is about the file, DUR001 to DUR008 are about names and state from outside the body, and DUR101 to DUR109 are
about operations and definitions. Codes are public: users write them in comments and options. A code is never reused.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Rule:
    """One kind of mistake. `bad` and `good` are examples, each the body of a workflow."""

    code: str
    title: str
    why: str
    fix: str
    bad: str
    good: str


_RULES = (
    Rule(
        code="DUR000",
        title="file cannot be read",
        why="A file that is not text, or not valid Python, cannot be checked.",
        fix="correct the file, or leave it out",
        bad="def (",
        good="yield from sleep(1)",
    ),
    Rule(
        code="DUR001",
        title="reads the clock",
        why="On replay the clock shows another time, and the body may ask for something other than what is recorded.",
        fix="use now(), the recorded time",
        bad="late = datetime.now(timezone.utc).hour > 18\nyield from sleep(1)",
        good="late = now().hour > 18\nyield from sleep(1)",
    ),
    Rule(
        code="DUR002",
        title="draws a random value",
        why="On replay another value is drawn, and what was sent elsewhere under the first value is not found again.",
        fix="use random(name) or uuid(name), which are the same on every replay",
        bad="order = str(uuid4())\nyield from charge(order)",
        good='order = str(uuid("order"))\nyield from charge(order)',
    ),
    Rule(
        code="DUR003",
        title="does I/O",
        why="The body runs again on every replay, on the engine's one thread: what it reads may have changed, what it "
        "writes is written again, and every other workflow waits meanwhile.",
        fix="do it in an activity",
        bad='text = open("terms.txt").read()\nyield from charge(text)',
        good="text = yield from read_terms()\nyield from charge(text)",
    ),
    Rule(
        code="DUR004",
        title="starts threads or uses an event loop",
        why="No event loop runs inside a body, and the order in which threads finish is not recorded.",
        fix="use gather() or race() for work at the same time, durable's sleep() to wait, and an activity otherwise",
        bad="time.sleep(5)\nyield from charge(order)",
        good="yield from sleep(5)\nyield from charge(order)",
    ),
    Rule(
        code="DUR005",
        title="reads the environment of the process",
        why="The next process may have other variables, another host or another hash seed: the body may take another "
        "path.",
        fix="pass it in as an argument, or read it in an activity",
        bad='if os.environ["REGION"] == "eu":\n    yield from charge(order)',
        good='if region == "eu":\n    yield from charge(order)',
    ),
    Rule(
        code="DUR006",
        title="depends on the order of a set",
        why="The order of a set of strings differs in every process, so operations come in another order on replay.",
        fix="sort it first: sorted(...)",
        bad="for one in {order, region}:\n    yield from charge(one)",
        good="for one in sorted({order, region}):\n    yield from charge(one)",
    ),
    Rule(
        code="DUR007",
        title="uses global state that changes",
        why="The variables of a module are shared by all workflows, are reset in every process, and are changed again "
        "by every replay.",
        fix="keep it in a local variable, pass it in as an argument, or do it in an activity",
        bad="SEEN.append(order)\nyield from charge(order)",
        good="seen = [order]\nyield from charge(seen[0])",
    ),
    Rule(
        code="DUR008",
        title="prints",
        why="The line is printed again by every replay.",
        fix="use logging, which can tell a replay from a first run, or do it in an activity",
        bad="print(order)\nyield from charge(order)",
        good="yield from charge(order)",
    ),
    Rule(
        code="DUR101",
        title="operation is never yielded",
        why="Calling an activity, sleep() or wait() only makes a value. Nothing runs without `yield from` or `await`.",
        fix="write 'yield from' (or 'await' in an async def) before it",
        bad="charge(order)\nyield from sleep(1)",
        good="yield from charge(order)\nyield from sleep(1)",
    ),
    Rule(
        code="DUR102",
        title="bare yield",
        why="`yield op` does not give the result of the operation; it is refused when it runs.",
        fix="write 'yield from' and an operation",
        bad="paid = yield charge(order)",
        good="paid = yield from charge(order)",
    ),
    Rule(
        code="DUR103",
        title="operation in a finally block",
        why="A finally block also runs when the body is evicted from memory or loses a race. No operation runs then.",
        fix="do the cleanup in 'except' and after the block",
        bad="try:\n    yield from charge(order)\nfinally:\n    yield from release(order)",
        good="try:\n    yield from charge(order)\nexcept (Exception, Cancelled):\n    yield from release(order)\n"
        "    raise\nyield from release(order)",
    ),
    Rule(
        code="DUR104",
        title="swallows a cancellation",
        why="Cancelled and the closing of a body are BaseExceptions that pass through every wait. A body that swallows "
        "them continues although it was cancelled or closed.",
        fix="catch Exception, or end the block with 'raise'",
        bad="try:\n    yield from charge(order)\nexcept BaseException:\n    pass",
        good="try:\n    yield from charge(order)\nexcept Exception:\n    pass",
    ),
    Rule(
        code="DUR105",
        title="calls the engine",
        why="The body runs on the engine's own thread, inside one of its decisions; the call is refused when it runs.",
        fix="yield a workflow's call to run it as a child, and do the rest in an activity",
        bad="engine.cancel(order)\nyield from sleep(1)",
        good="yield from cancel(order)",
    ),
    Rule(
        code="DUR106",
        title="operation is used as a value",
        why="It is not a result yet. Neither is a helper that was called without `yield from`, which is always true.",
        fix="write '(yield from ...)' (or 'await') around it",
        bad="if charge(order):\n    yield from sleep(1)",
        good="if (yield from charge(order)):\n    yield from sleep(1)",
    ),
    Rule(
        code="DUR107",
        title="runs an activity's function in the body",
        why="`.fn` is the plain function: it is not recorded, not retried, and runs again on every replay.",
        fix="call the activity itself and yield from it",
        bad="paid = charge.fn(order)\nyield from sleep(paid)",
        good="paid = yield from charge(order)\nyield from sleep(paid)",
    ),
    Rule(
        code="DUR108",
        title="next round is never raised",
        why="`wf.continue_as(...)` only makes a value. Without `raise` the workflow does not continue.",
        fix="write 'raise' before it",
        bad="yield from charge(order)\nchild.continue_as(order)",
        good="yield from charge(order)\nraise child.continue_as(order)",
    ),
    Rule(
        code="DUR109",
        title="name is defined twice",
        why="The second workflow or activity with a name hides the first. When the module is imported, it is refused.",
        fix="give one of them another name with name=, or a workflow another version=",
        bad='@activity(name="pay")\ndef by_card(): ...\n@activity(name="pay")\ndef by_bank(): ...\n'
        "yield from gather(by_card(), by_bank())",
        good='@activity(name="pay by card")\ndef by_card(): ...\n@activity(name="pay by bank")\ndef by_bank(): ...\n'
        "yield from gather(by_card(), by_bank())",
    ),
)

RULES = {rule.code: rule for rule in _RULES}
