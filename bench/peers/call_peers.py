"""Latency of one `echo hi` in the shells of other agent systems, or of one cell, as their users call them. One JSON line for each."""
import asyncio
import json
import logging
import os
import shutil
import statistics
import subprocess
import time

RUNS, WARMUPS = 40, 3
os.environ["MSWEA_SILENT_STARTUP"] = "1"
logging.disable(logging.WARNING)


def median_ms(call):
    taken = []
    for at in range(WARMUPS + RUNS):
        start = time.perf_counter()
        call()
        if at >= WARMUPS:
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def mini_swe_agent():
    from minisweagent.environments.extra.bubblewrap import BubblewrapEnvironment

    environment = BubblewrapEnvironment()
    try:
        assert environment.execute({"command": "echo hi"})["output"] == "hi\n"
        return median_ms(lambda: environment.execute({"command": "echo hi"}))
    finally:
        shutil.rmtree(environment.working_dir, ignore_errors=True)


def swe_rex():
    from swerex.deployment.local import LocalDeployment
    from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

    async def measure():
        deployment = LocalDeployment()
        await deployment.start()
        await deployment.runtime.create_session(CreateBashSessionRequest())
        taken = []
        for at in range(WARMUPS + RUNS):
            start = time.perf_counter()
            answer = await deployment.runtime.run_in_session(BashAction(command="echo hi"))
            assert answer.output.strip() == "hi"
            if at >= WARMUPS:
                taken.append((time.perf_counter() - start) * 1e3)
        await deployment.stop()
        return statistics.median(taken)

    return asyncio.run(measure())


def tmux():
    socket = f"bench{os.getpid()}"
    base = ["tmux", "-L", socket]
    subprocess.run([*base, "-f", "/dev/null", "new-session", "-d", "-s", "a", "bash --noprofile --norc"], check=True)

    def call():
        done = f"echo hi; tmux -L {socket} wait -S done"
        subprocess.run([*base, "send-keys", "-t", "a", done, "Enter"], check=True)
        subprocess.run([*base, "wait", "done"], check=True, timeout=30)
        subprocess.run([*base, "capture-pane", "-p", "-t", "a"], check=True, capture_output=True)

    try:
        time.sleep(0.3)
        return median_ms(call)
    finally:
        subprocess.run([*base, "kill-server"], check=False)


def mini_swe_agent_local():
    from minisweagent.environments.local import LocalEnvironment

    environment = LocalEnvironment()
    assert environment.execute({"command": "echo hi"})["output"] == "hi\n"
    return median_ms(lambda: environment.execute({"command": "echo hi"}))


def jupyter():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")

    def call():
        heard = []
        client.execute_interactive("1", output_hook=heard.append, timeout=30)
        assert any(each["msg_type"] == "execute_result" for each in heard)

    try:
        return median_ms(call)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


PEERS = [
    ("shell", "SWE-ReX local session", swe_rex),
    ("shell", "mini-swe-agent bubblewrap", mini_swe_agent),
    ("shell", "mini-swe-agent local", mini_swe_agent_local),
    ("shell", "tmux send-keys, wait, capture-pane", tmux),
    ("python", "Jupyter kernel", jupyter),
]
for kind, name, measure in PEERS:
    said = {"kind": kind, "name": name, "median_ms": None}
    try:
        said["median_ms"] = measure()
    except Exception as error:  # a peer that is not installed is said, not fatal
        said["problem"] = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
