"""Run tests again and again beside a busy core, to find those that fail only sometimes.

    python tests/stress.py 20 tests/evaluation/test_parallel.py

`make stress` does so with the tests that start processes, send signals or wait.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/cli/test_study.py",
    "tests/evaluation/test_parallel.py",
    "tests/evidence/test_evidence_run.py",
    "tests/io/test_packed.py",
    "tests/report/test_report_in_browser.py",
    "tests/values/test_distributed.py",
    "tests/values/test_surviving.py",
)
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@contextmanager
def busy_core():
    """Keep one core busy, for as long as this process lives."""
    parent = os.getpid()
    loop = f"import os\nwhile os.getppid() == {parent}: pass"
    process = subprocess.Popen([sys.executable, "-c", loop])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def run_tests(times, tests):
    """How often each test failed; a run that ends in another way counts as a test "pytest"."""
    failures = Counter()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=0", *tests]
    for number in range(times):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        failed = FAILED.findall(done.stdout)
        if done.returncode and not failed:
            failed = ["pytest"]
        failures.update(failed)
        last = done.stdout.strip().rpartition("\n")[2]
        print(f"run {number + 1} of {times}: {last}", flush=True)
        if done.returncode:
            print(done.stdout, done.stderr, flush=True)
    return failures


def main():
    """Run, and list what failed with how often."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", type=int, nargs="?", default=20)
    parser.add_argument("tests", nargs="*", default=TESTS)
    options = parser.parse_args()
    with busy_core():
        failures = run_tests(options.times, options.tests)
    for test, count in failures.most_common():
        print(f"{count} of {options.times}: {test}")
    if failures:
        sys.exit(1)
    print(f"nothing failed in {options.times} runs")


if __name__ == "__main__":
    main()
