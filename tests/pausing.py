"""A braindive command that waits in the middle of a fit until it is told to go on.

    python tests/pausing.py FOLDER checkpoint fit study.zarr -k 3
    python tests/pausing.py FOLDER gather fit study.zarr -k 3 --dask ADDRESS

After three passes it makes the file FOLDER/paused, right after a checkpoint was written or while it
waits for workers, and does nothing until there is a file FOLDER/go. So tests that disturb a fit
never depend on how long it takes.
"""

import sys
import time
from pathlib import Path

PASSES = 3


def main():
    """Run the command with the pause in it."""
    from braindive.cli.main import run
    from braindive.io import models

    folder, where, *arguments = sys.argv[1:]
    paused, go = Path(folder, "paused"), Path(folder, "go")
    passes = []

    def pause():
        if len(passes) >= PASSES and not paused.exists():
            paused.touch()
            while not go.exists():
                time.sleep(0.01)

    def write_and_pause(*arguments):
        write_checkpoint(*arguments)
        passes.append(True)
        if where == "checkpoint":
            pause()

    def pause_and_gather(*arguments, **options):
        pause()
        return gather(*arguments, **options)

    write_checkpoint = models.write_checkpoint
    models.write_checkpoint = write_and_pause
    if where == "gather":
        from distributed import Client

        gather = Client.gather
        Client.gather = pause_and_gather
    sys.argv = ["braindive", *arguments]
    run()


if __name__ == "__main__":
    main()
