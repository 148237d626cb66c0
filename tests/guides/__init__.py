"""The pages docs/guides/NAME.md: the questions of a guide in its order, and what livedbg answers to each."""
