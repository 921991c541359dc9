"""How each script must end if nothing goes wrong, as follows from reading it. It is fixed here, so that no bug changes
it.

By the script's name: the result of each workflow (or its status), the payloads of the remaining events, and those of
the dead letters.
"""

from __future__ import annotations

ENDINGS: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
    "sequence": ({"w": "[10,20,30,40]"}, [], []),
    "retries then success": ({"w": "[3,70]"}, [], []),
    "retries exhausted and caught": ({"w": "[[3],70]"}, [], []),
    "sleep and sleep_until": ({"w": "[5]"}, [], []),
    "targeted event before the wait": ({"w": "[1,2,5]"}, ["4"], ["3"]),
    "targeted event after the wait": ({"w": "[1,2,3]"}, [], []),
    "event that a workflow sends": ({"a": "[1,2]", "b": "20", "c": "[3]"}, [], []),
    "untargeted event": ({"a": "[1,2]", "b": "[3]"}, ["4"], []),
    "broadcast": ({"a": "[1,2]", "b": "[1]", "c": "[1,2]"}, ["1", "2"], []),
    "gather": ({"w": "[100,2,4,40]"}, [], []),
    "race of event and timer": ({"w": '["event","timer"]'}, [], []),
    "nested race in a gather": ({"w": "[[10,1],1,9]"}, [], []),
    "within and or_default": ({"w": "[-1,1,-3]"}, [], []),
    "awaited child": ({"w": "[260,10]", "w/0": "[50,60,70,80]"}, [], []),
    "child that fails and is caught": ({"w": '["Declined","30"]', "w/0": "failed"}, [], []),
    "children three deep": ({"w": "16", "w/1": "13", "w/1/1": "11", "w/1/1/1": "10"}, [], []),
    "continue_as with pending events": ({"w": "[1,2,3]"}, [], ["4"]),
    "cancel with cleanup": ({"w": "cancelled", "w/0.1.0": "cancelled"}, [], ["1"]),
    "delayed start": ({"w": "[1,2]"}, [], []),
    "delayed start that comes late": ({"w": "[1,2,300]"}, [], []),
    "pauses": ({"w": '[1,5,"timer","PauseExpired","PauseCancelled"]'}, [], []),
    "dead letter and replay": ({"w": "[1]", "v": "cancelled", "x": "suspended"}, ["3"], []),
    "undos of a workflow that fails": ({"w": "failed"}, [], []),
    "undos of sagas": ({"w": "[1,1]"}, [], []),
    "cancel while a saga is undone": ({"w": "cancelled"}, [], []),
    "spawned children asked for later": (
        {"w": "[1,[50,60,70,80],[2],[50,60,70,80]]", "w/0": "[50,60,70,80]", "w/1": "[2]"}, [], [],
    ),
    "spawned children kept and not": (
        {"w": '"w/0"', "w/0": "[2]", "w/1": "cancelled", "w/1/0.1.0": "cancelled", "stopped": "cancelled"}, [], [],
    ),
    "spawned children three deep": (
        # A tied child ends with its parent, and that child's own heir is kept.
        {"w": "7", "w/1": "4", "w/1/1": "2", "w/1/1/1": "1"}
        | dict.fromkeys(("w/0", "w/0/0", "w/0/0/0", "w/1/0", "w/1/0/0", "w/1/1/0"), "cancelled")
        | dict.fromkeys(("w/0/1", "w/0/0/1", "w/0/1/0", "w/0/1/1", "w/1/0/1"), "suspended"),
        [], [],
    ),
    "progress in rounds": ({"w": '"done"'}, [], []),
    "schedule: ticks and a pause": ({f"s@2031-05-17T12:0{n}:00+00:00": f"{n}0" for n in (1, 3)}, [], []),
    "schedule: triggered": ({"t": "10", "s@2031-05-17T12:02:00+00:00": "20"}, [], []),
    "schedule: in line, all caught up": (
        {f"s@2031-05-17T12:0{n}:00+00:00": f"[{n}]" for n in (1, 3)}
        | {"s@2031-05-17T12:02:00+00:00": "cancelled", "s@2031-05-17T12:04:00+00:00": "suspended"}, [], [],
    ),
    "schedule: missed ticks": (
        dict.fromkeys([f"{tick}:00+00:00" for tick in (
            "last@2031-05-17T12:04", "last@2031-05-17T12:06", "none@2031-05-17T12:06",
        )], "failed"), [], [],
    ),
    "settled branches": ({"w": "[[3],100,[40,1],50]"}, [], []),
    "first success": ({"w": '["good",20,1]', "w/0.child.0": "cancelled"}, [], []),
    "a few at a time": ({"w": "[[0],[10,1],[20],[30,3],[40],90]"}, [], []),
    "loop": ({"w": "[[10,20,30,40],90]"}, [], []),
    "loops in branches": ({"w": '[1,5,"ticked"]'}, [], []),
    "loop in a loop": ({"w": "[[10,20],[110,120],[210,220]]"}, [], []),
    "loop that fails late": ({"w": "failed"}, [], []),
    "code that changes": ({"done": "[300,0,50,false]", "begun": "[300,1,50,false]", "new": "[20,2,50,true]"}, [], []),
    "code that changes under a step": ({"w": "[300,1,50,false]"}, [], []),
    "step removed under a wrong name": ({"w": "parked"}, ["1"], []),
    "retry": ({"w": "[2000,[5],30]", "w/1.0.0": "2000", "w/1.1.0": "[5]"}, [], []),
    "fork": ({"w": "[[10,20,30,40],90]", "f": "[[10,20,50,60],90]"}, [], []),
    "repair": ({"w": "[77,5,78]"}, [], []),
}  # fmt: skip
