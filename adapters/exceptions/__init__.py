"""Catchpoints: those that trace without a stop, and those at which a thread is stopped and inspected."""

from livedbg.adapters.exceptions.adapter import ExceptionsAdapter
from livedbg.adapters.exceptions.cores import CoresAdapter
from livedbg.adapters.exceptions.stopping import StoppingAdapter

__all__ = ["CoresAdapter", "ExceptionsAdapter", "StoppingAdapter"]
