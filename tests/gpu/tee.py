"""A cuda-gdb whose MI session is written down in the form that tests/gdbmi/player.py plays.

tee.py RECORDING GDB arguments…
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path


def main(recording: Path, argv: list[str]) -> int:
    gdb = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert gdb.stdin is not None and gdb.stdout is not None
    lock = threading.Lock()
    with recording.open("ab") as written:

        def answers() -> None:
            assert gdb.stdout is not None
            for line in gdb.stdout:
                with lock:
                    if not line.startswith(b"(gdb)"):
                        written.write(line)
                        written.flush()
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()

        reader = threading.Thread(target=answers)
        reader.start()
        for line in sys.stdin.buffer:
            with lock:
                written.write(b">>> " + line)
            gdb.stdin.write(line)
            gdb.stdin.flush()
        gdb.stdin.close()
        reader.join()
    return gdb.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
