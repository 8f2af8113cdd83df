# Runs notebook cells for the server: one JSON line on stdin for each, a mark on stdout when it is done.
# What a cell prints goes straight to stdout, so the server bounds it and nothing is kept here.
import ast
import io
import json
import linecache
import os
import signal
import sys
import traceback

requests = os.fdopen(os.dup(0), "rb")
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
os.close(null)
sys.stdin = open(0, "r", closefd=False)
# One stream for both, line by line: output and errors keep their order, also beside those of child processes.
stream = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8", errors="backslashreplace", line_buffering=True)
sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = stream
sys.path[0] = ""
sys.argv = [""]

main = type(sys)("__main__")
sys.modules["__main__"] = main
main.__builtins__ = __builtins__
cells = 0
running = False


def interrupt(_number, _frame):
    # Between cells an interrupt has nothing to stop and must not end the worker.
    if running:
        raise KeyboardInterrupt


def run(code):
    global cells, running
    cells += 1
    name = f"<cell {cells}>"
    # Tracebacks show the lines of a cell only if linecache knows them.
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    signal.signal(signal.SIGINT, interrupt)
    running = True
    try:
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, name, "exec"), main.__dict__)
        if last is not None:
            value = eval(compile(last, name, "eval"), main.__dict__)
            if value is not None:
                main._ = value
                print(repr(value))
        return 0
    except SystemExit as end:
        running = False
        if isinstance(end.code, str):
            print(end.code)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        running = False
        show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        running = False


def show(error):
    try:
        report = traceback.TracebackException.from_exception(error, limit=-20)
        part = report
        while part is not None:
            # The frames of this worker are not the model's.
            part.stack = traceback.StackSummary.from_list([f for f in part.stack if f.filename != __file__])
            part = part.__cause__ or part.__context__
        print("".join(report.format()), end="", file=stream)
    except BaseException:
        print(f"{type(error).__name__} (its message cannot be shown)", file=stream)


def answer(nonce, word):
    for each in {sys.stdout, sys.stderr, stream}:
        try:
            each.flush()
        except BaseException:
            pass
    os.write(1, f"\n\x1e{nonce} {word}\x1e".encode())


signal.signal(signal.SIGINT, interrupt)
for line in requests:
    try:
        request = json.loads(line)
    except ValueError:
        continue  # the rest of a request that an earlier worker did not read
    if request.get("hello"):
        answer(request["nonce"], os.getpid())
        continue
    code = request.get("code")
    if code is None:
        with open(request["file"], encoding="utf-8") as file:
            code = file.read()
    answer(request["nonce"], run(code))
