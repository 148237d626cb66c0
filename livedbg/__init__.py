"""livedbg: says what a running GPU/NPU job is stuck on, while it goes on running.

This package is the core (events, store, analyses, session, CLI). It imports neither
Textual nor a framework; the terminal app lives behind `livedbg.app` and `livedbg.panels`.
"""

from __future__ import annotations

__version__ = "0.2.0"
