"""Logs: of files and directories that the user named, and those that the targets write."""

from livedbg.adapters.logfiles.adapter import LogAdapter

__all__ = ["LogAdapter"]
