"""Runs hidden assert tests. The solution is elsewhere: every name that the tests do not define is a call over the pipe.

One JSON line out for each call and each result, one line in for each answer. Values arrive as tagged literals and are
built anew here, so a candidate cannot hand over an object that compares equal to everything.
"""
import ast
import base64
import builtins
import json
import os
import sys
import types

TAG = "~"


class CandidateError(Exception):
    """The candidate raised something that is no builtin, or answered nonsense."""


class CandidateStopped(BaseException):
    """The candidate ran out of time or died; not an Exception, so that no test can swallow it."""


def encode(value):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {TAG: "int", "v": hex(value)}
    if isinstance(value, float):
        return {TAG: "float", "v": value.hex() if value == value else "nan"}
    if isinstance(value, complex):
        return {TAG: "complex", "v": [encode(value.real), encode(value.imag)]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {TAG: kind.__name__, "v": [encode(item) for item in value]}
    for kind in (bytes, bytearray):
        if isinstance(value, kind):
            return {TAG: kind.__name__, "v": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {TAG: "dict", "v": [[encode(k), encode(v)] for k, v in value.items()]}
    raise TypeError(f"a test passes a {type(value).__name__}, which cannot cross to the candidate")


def decode(value):
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    try:
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
        if kind == "range":
            return range(*(decode(bound) for bound in inner))
        if kind == "iter":
            return replay(decode(inner[0]), inner[1])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CandidateError("the candidate's answer is no tagged literal") from error
    raise CandidateError("the candidate's answer is no tagged literal")


def replay(items, end):
    """An iterator of the candidate's: its items, then the error that ended it, if one did."""
    yield from items
    if end is not None:
        raise rebuild(end)


def rebuild(error):
    """A candidate's error as one of the builtin exceptions; what is none of them is a CandidateError."""
    message = str(error.get("message"))
    kind = getattr(builtins, str(error.get("type")), None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return CandidateError(message)
    for args in (error.get("args"), [message]):
        try:
            return kind(*(decode(item) for item in args))
        except Exception:
            continue
    return CandidateError(message)


class Wire:
    def __init__(self):
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self.inp = os.fdopen(os.dup(0), "r", encoding="utf-8")
        os.dup2(2, 1)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)

    def send(self, message):
        self.out.write(json.dumps(message) + "\n")
        self.out.flush()

    def ask(self, message):
        self.send(message)
        line = self.inp.readline()
        if not line:
            raise SystemExit(3)
        return json.loads(line)


def proxy(wire, name):
    def call(*args, **kwargs):
        sent = {"name": name, "args": [encode(a) for a in args], "kwargs": {k: encode(v) for k, v in kwargs.items()}}
        reply = wire.ask({"call": sent})
        if "stopped" in reply:
            raise CandidateStopped(reply["stopped"])
        if "error" in reply:
            raise rebuild(reply["error"])
        for mine, theirs in zip(args, reply.get("args", [])):
            copy_back(mine, theirs)
        return decode(reply.get("value"))

    call.__name__ = name
    return call


def copy_back(mine, theirs):
    """A function may change a list, dict or set it was given: the caller sees that, as in one process."""
    if not isinstance(mine, (list, dict, set)):
        return
    changed = decode(theirs)
    if type(changed) is not type(mine):
        return
    mine.clear()
    mine.extend(changed) if isinstance(mine, list) else mine.update(changed)


def names_of_candidate(tree):
    """Names the tests use and do not define: functions of the solution."""
    used, defined = set(), set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            defined.add(node.name)
    return used - defined


def has_assert(statement):
    nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return not isinstance(statement, nested) and any(isinstance(node, ast.Assert) for node in ast.walk(statement))


def split(tree, entry_point):
    """Statements in order, and the name that `check(candidate)` is given; its body is taken apart when that is safe."""
    check = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"), None)
    if entry_point is None or check is None or len(check.args.args) != 1:
        return tree.body, None
    others = [n for n in tree.body if n is not check]
    stuck = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
    if any(isinstance(node, stuck) for node in ast.walk(check)) or not any(has_assert(n) for n in check.body):
        call = ast.parse(f"check({entry_point})").body
        return [*tree.body, *call], None
    return [*others, *check.body], check.args.args[0].arg


def run_test(wire, number, test):
    entry_point = test.get("entry_point")
    tree = ast.parse(test["code"])
    statements, candidate = split(tree, entry_point)
    namespace = {"__name__": "tests"}
    for name in names_of_candidate(tree):
        namespace[name] = proxy(wire, name)
    if entry_point is not None:
        namespace[entry_point] = proxy(wire, entry_point)
        if candidate is not None:
            namespace[candidate] = namespace[entry_point]
    units = [n for n in statements if has_assert(n)]
    counted = units if units else statements[-1:]
    for statement in statements:
        unit = next((at for at, n in enumerate(counted) if n is statement), None)
        outcome = run_statement(statement, namespace)
        if unit is not None:
            wire.send({"result": {"test": number, "unit": unit, "units": len(counted), **outcome}})
        elif not outcome["passed"]:
            for at in range(len(counted)):
                wire.send({"result": {"test": number, "unit": at, "units": len(counted), **outcome}})
            return


def run_statement(statement, namespace):
    source = ast.unparse(statement)[:500]
    try:
        exec(compile(ast.Module([statement], []), "<tests>", "exec"), namespace)
        return {"passed": True, "detail": source, "why": None}
    except AssertionError as error:
        return {"passed": False, "detail": source, "why": f"assertion failed {error}".strip()[:500]}
    except CandidateStopped as error:
        return {"passed": False, "detail": source, "why": str(error)[:500]}
    except Exception as error:
        return {"passed": False, "detail": source, "why": f"{type(error).__name__}: {error}"[:500]}


def candidate_module(wire):
    """What `from solution import f` and `import solution` find: every name is a call over the pipe."""

    def member(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return proxy(wire, name)

    module = types.ModuleType("solution")
    module.__getattr__ = member
    return module


def main():
    wire = Wire()
    sys.modules["solution"] = candidate_module(wire)
    with open(sys.argv[1], encoding="utf-8") as file:
        tests = json.load(file)
    for number, test in enumerate(tests):
        run_test(wire, number, test)
    wire.send({"done": True})


main()
