"""The session: the contracts of adapters and systems, which of them run, live and replayed views, launch, targets."""
