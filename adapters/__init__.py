"""Adapters: one module or folder per kind of source (contract: livedbg.session.adapter)."""
