"""The demo of the Ascend system: a recorded hang, played back."""
