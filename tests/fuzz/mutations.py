"""Ways to corrupt a stored text, from one seed. The result is text, or bytes where it is not text any longer.

This file knows JSON and pickle as formats. It must not know the reader.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

# What pickle would run if it were given this. The second is the same in a newer protocol.
MARK = "durable-was-fooled"
PICKLES = (
    f"cos\nsystem\n(S'touch {MARK}'\ntR.".encode(),
    b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
)
# Names that would do harm if a stored name were enough to call them.
HARMFUL = ("os.system", "subprocess.Popen", "builtins.eval", "builtins.exec", "builtins.open", "posix.system")
DEEP = 10_000

WHOLE: tuple[str | bytes, ...] = (
    *PICKLES,
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP,
    "9" * 6_000,
    str(10**400),
    "-" + str(1 << 200),
    "1e999",
    "NaN",
    "-Infinity",
    r'"\ud800"',
    rb'"\ud800"' + b"\xed\xa0\x80",
    b"\xff\xfe\x00",
    b'"caf\xe9"',
    "",
    " ",
    "\0",
    "null",
    "true",
    "0",
    "[]",
    "{}",
    '"text"',
    "[null]",
    '{"":""}',
    '{"a":1,"a":2}',
    '{"$codec":99,"value":1}',
    '{"$type":"durable.model.codec.v2","value":{"$type":"Order","value":{}}}',
    *(json.dumps({"$type": name, "value": [f"touch {MARK}"]}) for name in HARMFUL),
    *(
        json.dumps({"type": name, "args": [f"touch {MARK}"], "message": "", "traceback": ""})
        for name in (*HARMFUL, "builtins.SystemExit", "builtins.KeyboardInterrupt", "builtins.OSError", ".", "a..b")
    ),
    json.dumps({"type": "builtins.ValueError", "args": [[[["deep"]]]], "message": "x", "traceback": "", "cause": {}}),
    json.dumps({"py/object": "os.system", "py/reduce": [{"py/type": "os.system"}, {"py/tuple": ["true"]}]}),
    "!!python/object/apply:os.system ['true']",
)


def _flip(chance: random.Random, text: str) -> bytes:
    data = bytearray(text.encode() or b"\0")
    for _ in range(chance.choice((1, 1, 1, 3, 20))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _cut(chance: random.Random, text: str) -> str:
    return text[: chance.randint(0, len(text))]


def _noise(chance: random.Random, _text: str) -> bytes:
    return chance.randbytes(chance.choice((1, 8, 200)))


def _splice(chance: random.Random, text: str) -> str:
    at = chance.randint(0, len(text))
    piece = chance.choice(('"', "{", "]", "\\", "\\ud800", "\0", ",,", "é", "9" * 400, "e999"))
    return text[:at] + piece + text[at:]


def _replace_part(chance: random.Random, text: str) -> str:
    """Replace one place of a JSON value, so that it is still JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return chance.choice(("1", "[1]"))
    return json.dumps(_replaced(chance, value))


def _replaced(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        if chance.random() < 0.2:
            return {("other" if name == key else name): item for name, item in value.items()}
        return {**value, key: _replaced(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        index = chance.randrange(len(value))
        return [*value[:index], _replaced(chance, value[index]), *value[index + 1 :]]
    return chance.choice(
        (None, True, -1, 1 << 70, 1.5, "", "text", "\ud800", [], {}, {"$type": "Order"}, [[1]], "x" * 999)
    )


def _double_keys(_chance: random.Random, text: str) -> str:
    return f"{text[:-1]},{text[1:]}" if text.startswith("{") and len(text) > 2 else f'{{"a":{text},"a":{text}}}'


def _nest(chance: random.Random, text: str) -> str:
    depth = chance.choice((1, 3, 900, DEEP))
    return "[" * depth + text + "]" * depth


def _whole(chance: random.Random, _text: str) -> str | bytes:
    return chance.choice(WHOLE)


MUTATIONS: tuple[Callable[[random.Random, str], str | bytes], ...] = (
    _flip, _flip, _cut, _noise, _splice, _replace_part, _replace_part, _double_keys, _nest, _whole, _whole, _whole,
)  # fmt: skip


NUMBERS = (0, 1, -1, 2, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 10**15, 10**17)


def mutate_number(chance: random.Random, number: int) -> int:
    """Another number that fits the column."""
    return chance.choice((number ^ (1 << chance.randrange(62)), number + chance.choice((-1, 1)), *NUMBERS))


def mutate(chance: random.Random, text: str) -> bytes:
    """The text, corrupted in one way, as the bytes that the file would hold."""
    spoilt = chance.choice(MUTATIONS)(chance, text)
    return spoilt if isinstance(spoilt, bytes) else spoilt.encode("utf-8", "surrogatepass")
