"""Writes a driver's log where CUDA_LOG_FILE says, and an error block to standard error, as a program would that is
about to end; then it waits."""

import os
import sys
from pathlib import Path

driver, block = map(Path, sys.argv[1:])
Path(os.environ["CUDA_LOG_FILE"]).write_bytes(driver.read_bytes())
sys.stderr.write(block.read_text())
sys.stderr.flush()
print("READY", flush=True)
sys.stdin.readline()
