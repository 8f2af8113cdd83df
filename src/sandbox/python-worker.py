# Runs notebook cells for the server: one JSON line on stdin for each, a mark on stdout when it is done.
# What a cell prints goes straight to stdout, so the server bounds it and nothing is kept here.
import ast
import fcntl
import io
import linecache
import os
import shutil
import signal
import sys
import traceback
# By name: a cell may replace what it finds in these modules.
from json import loads
from os import _exit, getpid, write

# Descriptors that a cell does not meet by chance when it closes or redirects its own.
PRIVATE_FD = 100
worker = getpid()
requests = os.fdopen(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, PRIVATE_FD), "rb")
answers = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, PRIVATE_FD)
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
os.close(null)
sys.stdin = open(0, "r", closefd=False)
sys.path[0] = ""
sys.argv = [""]
stream = sys.stdout = sys.stderr = None
FIGURES = "/run/figures"
# Figures are drawn without a screen, also by programs that a cell starts.
os.environ.setdefault("MPLBACKEND", "Agg")
try:
    os.close(10)  # the terminal's pipe, which sh has no word to close
except OSError:
    pass


def mend_output():
    """Opens again what an earlier cell closed of its output, or had put something in place of that is no file."""
    global stream
    try:
        os.fstat(1)
    except OSError:
        os.dup2(answers, 1)
    os.set_blocking(1, True)
    if stream is None or stream.closed:
        # One stream for both, line by line: output and errors keep their order, also beside those of child processes.
        raw = os.fdopen(1, "wb", closefd=False)
        stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        sys.__stdout__ = sys.__stderr__ = stream
    for name in ("stdout", "stderr"):
        if getattr(getattr(sys, name, None), "closed", True):
            setattr(sys, name, stream)


mend_output()
main = type(sys)("__main__")
sys.modules["__main__"] = main
main.__builtins__ = __builtins__
cells = 0
running = False
interrupted = False
has_figures = False


def interrupt(_number, _frame):
    # Between cells an interrupt has nothing to stop and must not end the worker.
    if running:
        raise KeyboardInterrupt


def run(code):
    global cells, running, interrupted
    cells += 1
    interrupted = False
    mend_output()
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
                if not code.rstrip().endswith(";"):
                    print(repr(value))
        return 0
    except SystemExit as end:
        running = False
        if isinstance(end.code, str):
            print(end.code, file=stream)
        # As the kernel takes it: a byte. Not by the code's own methods, which may be a cell's.
        return int.__and__(end.code, 255) if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        running = False
        interrupted = isinstance(error, KeyboardInterrupt)
        show(error)
        return 130 if interrupted else 1
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


def save_figures(request):
    """Writes the figures that the cell left open as PNG files, as a notebook shows them; says how many, and how many not."""
    global running, has_figures
    saved = lost = 0
    running = True
    try:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return 0, 0
        if has_figures:
            shutil.rmtree(FIGURES, ignore_errors=True)  # the server has read them
        numbers = pyplot.get_fignums()
        has_figures = bool(numbers)
        folder = f"{FIGURES}/{request['nonce']}"
        if numbers:
            os.makedirs(folder)
        for number in numbers:
            if saved == request["figures"]:
                lost += 1
                continue
            pyplot.figure(number).savefig(f"{folder}/{saved + 1}.png", format="png")
            saved += 1
        pyplot.close("all")
    except BaseException as error:
        running = False
        lost += 1
        print(f"A figure could not be saved: {type(error).__name__}", file=stream)
    finally:
        running = False
    return saved, lost


def flush():
    for each in (sys.stdout, sys.stderr, stream):
        try:
            each.flush()
        except BaseException:
            pass


def answer(nonce, word):
    os.set_blocking(answers, True)  # a node that the cell ran and killed leaves it so
    flush()
    write(answers, f"\n\x1e{nonce} {word}\x1e".encode())


signal.signal(signal.SIGINT, interrupt)
for line in requests:
    try:
        request = loads(line)
    except ValueError:
        continue  # the rest of a request that an earlier worker did not read
    if request.get("hello"):
        answer(request["nonce"], worker)
        continue
    code = request.get("code")
    if code is None:
        with open(request["file"], encoding="utf-8") as file:
            code = file.read()
    try:
        word = run(code)
    except KeyboardInterrupt:  # it came when the cell had just ended
        running = False
        interrupted = True
        word = 130
    if getpid() != worker:
        # The child of a fork in a cell: only the worker answers and takes the next cell.
        flush()
        _exit(word)
    saved, lost = save_figures(request)
    by = "SIGINT" if interrupted else "-"
    answer(request["nonce"], f"{word} {by} {saved} {lost}")
