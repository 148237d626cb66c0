"""Catchpoints: those that listen without a stop, and those at which a thread stands for a look."""

from livedbg.adapters.exceptions.adapter import ExceptionsAdapter
from livedbg.adapters.exceptions.stopping import StoppingAdapter

__all__ = ["ExceptionsAdapter", "StoppingAdapter"]
