"""Words, numbers and names for people: cleaning, counting, demangling. Imports nothing else of livedbg."""
