"""vLLM's HTTP server on 127.0.0.1 or a Unix socket, for one small model on a CPU.

usage: vllm_server.py MODEL_FOLDER NAME ADDRESS [FLAG...]

ADDRESS is a port (0 takes a free one) or the path of a socket. Prints `listening URL` once the address is bound, which
is long before the model answers: ask /health for that. Ends when its standard input is closed, and takes its engine
process with it, so neither outlives whoever started it.
"""

import ctypes
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1

# One thread: two spin and get in each other's way where other work shares the cores. Development mode opens the routes
# that pause, reset and tell the server's flags.
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}

# float32: bfloat16 is slower here, and scores a prompt alone otherwise than in a batch.
FLAGS = [
    *("--dtype", "float32"),
    "--enforce-eager",
    *("--max-model-len", "2048"),
    *("--max-num-seqs", "32"),
    *("--logprobs-mode", "processed_logprobs"),
    "--enable-scale-out",
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
]


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def announce(launcher) -> None:
    """Says where the server listens, which vLLM itself does not know for port 0."""
    bind_port, bind_path = launcher.create_server_socket, launcher.create_server_unix_socket

    def on_port(address, **options):
        bound = bind_port(address, **options)
        os.write(1, f"listening http://127.0.0.1:{bound.getsockname()[1]}\n".encode())
        return bound

    def on_path(path):
        bound = bind_path(path)
        os.write(1, f"listening unix:{path}\n".encode())
        return bound

    launcher.create_server_socket, launcher.create_server_unix_socket = on_port, on_path


def main() -> None:
    folder, name, address, *flags = sys.argv[1:]
    threading.Thread(target=end_with_stdin, daemon=True).start()
    for key, value in ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    where = ["--port", address] if address.isdigit() else ["--uds", address]
    sys.argv = ["vllm", "serve", folder, "--served-model-name", name, "--host", "127.0.0.1", *where, *FLAGS, *flags]
    from vllm.entrypoints.launchers import launcher

    announce(launcher)
    from vllm.entrypoints.cli.main import main as serve

    serve()


# The engine is a process that imports this file: it, too, dies with its parent.
die_with_parent()
if __name__ == "__main__":
    main()
