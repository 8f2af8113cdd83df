"""Runs one candidate solution and answers calls to its functions, one JSON line each way.

Started alone in its own sandbox. What it prints goes to stderr; only tagged literals leave on the private copy of
stdout. Whatever the solution does to this process changes nothing but its own answers.
"""
import base64
import json
import itertools
import os
import sys
import types

TAG = "~"
VIEWS = tuple(type(view) for view in ({}.keys(), {}.values(), {}.items()))
# Of an iterator so many items cross; asking for more is the error of a test that lists what may never end.
ITEMS_MAX = 10_000


def encode(value, depth=0):
    if depth > 64:
        raise TypeError("nested too deeply")
    if value is None or value is True or value is False or type(value) is str:
        return value
    kind = type(value)
    if kind is int:
        return value if abs(value) < 2**53 else {TAG: "int", "v": hex(value)}
    if kind is float:
        return {TAG: "float", "v": value.hex() if value == value else "nan"}
    if kind is complex:
        return {TAG: "complex", "v": [encode(value.real), encode(value.imag)]}
    if kind is list:
        return [encode(item, depth + 1) for item in value]
    if kind in (tuple, set, frozenset):
        return {TAG: kind.__name__, "v": [encode(item, depth + 1) for item in value]}
    if kind in (bytes, bytearray):
        return {TAG: kind.__name__, "v": base64.b64encode(bytes(value)).decode()}
    for base in (int, float, str, list, tuple, set):  # a subclass (a named tuple, an enum) crosses as what it extends
        if isinstance(value, base):
            return encode(base(value), depth + 1)
    if isinstance(value, dict):
        return {TAG: "dict", "v": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    if kind is range:
        return {TAG: "range", "v": [encode(value.start), encode(value.stop), encode(value.step)]}
    if isinstance(value, VIEWS):
        return [encode(item, depth + 1) for item in value]
    if hasattr(kind, "__next__") and kind.__module__ != "_io":  # an open file is no sequence of answers
        return encode_iterator(value, depth + 1)
    raise TypeError(f"a {kind.__name__} cannot leave the candidate")


def encode_iterator(iterator, depth):
    """What it gives, and how it ends: of itself (null), with an error, or not within ITEMS_MAX items."""
    items, end = [], None
    try:
        for item in itertools.islice(iterator, ITEMS_MAX + 1):
            items.append(encode(item, depth))
    except TypeError as error:
        if "cannot leave the candidate" in str(error):
            raise
        end = describe(error)
    except BaseException as error:
        end = describe(error)
    if len(items) > ITEMS_MAX:
        end = {"type": "CandidateError", "message": f"its iterator gives more than {ITEMS_MAX} items"}
    return {TAG: "iter", "v": [items[:ITEMS_MAX], end]}


def decode(value):
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, inner = value[TAG], value["v"]
    if kind == "int":
        return int(inner, 16)
    if kind == "float":
        return float("nan") if inner == "nan" else float.fromhex(inner)
    if kind == "complex":
        return complex(decode(inner[0]), decode(inner[1]))
    if kind in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](decode(item) for item in inner)
    if kind in ("bytes", "bytearray"):
        return {"bytes": bytes, "bytearray": bytearray}[kind](base64.b64decode(inner))
    if kind == "dict":
        return {decode(k): decode(v) for k, v in inner}
    raise ValueError(f"unknown tag {kind}")


def describe(error):
    """An error by its nearest builtin kind, since the tests know no other, with its arguments where they can cross."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
    try:
        described = {"type": kind, "message": str(error)[:2000]}
    except BaseException:
        return {"type": kind, "message": f"a {type(error).__name__} that cannot be printed"}
    try:
        described["args"] = [encode(item) for item in error.args]
    except BaseException:
        pass
    return described


def answer(namespace, call):
    function = namespace.get(call["name"])
    if not callable(function):
        return {"error": {"type": "NameError", "message": f"name '{call['name']}' is not defined"}}
    args = [decode(item) for item in call["args"]]
    kwargs = {key: decode(item) for key, item in call["kwargs"].items()}
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        return {"error": describe(error)}
    try:
        return {"value": encode(value), "args": [encode(item) for item in args]}
    except Exception as error:
        return {"error": {"type": "CandidateError", "message": str(error)[:2000]}}


def main():
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    calls = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)

    def send(reply):
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))
    # A module that can be found by its name: dataclasses, enums and pickle look their own up.
    module = sys.modules["solution"] = types.ModuleType("solution")
    namespace = module.__dict__
    path = module.__file__ = sys.argv[1]
    try:
        with open(path, encoding="utf-8") as source:
            exec(compile(source.read(), path, "exec"), namespace)
    except BaseException as error:
        send({"loaded": False, "error": describe(error)})
        return
    send({"loaded": True})
    for line in calls:
        send(answer(namespace, json.loads(line)))


main()
