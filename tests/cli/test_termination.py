"""A command that is told to end, as schedulers of clusters do."""

import signal
import subprocess
import sys

# Tasks on two workers, which joblib keeps for a next call, and then something else.
COMMAND = """
import time
import braindive.cli.main as main
from braindive.evaluation.parallel import run_tasks

def command():
    run_tasks(divmod, [(7, 2)] * 4, 2)
    print("between two calls", flush=True)
    time.sleep(1000)

main.app = command
main.run()
"""
# Seconds after which a process counts as hanging.
PATIENCE = 300


def test_no_worker_is_left_by_a_command_that_is_terminated_between_two_calls():
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "between two calls\n", process.stderr.read()
        process.terminate()
        # Workers share the pipes, so this returns when all of them are gone.
        assert process.communicate(timeout=PATIENCE) == ("", "")
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
