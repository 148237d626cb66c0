import ctypes

ops = ctypes.CDLL("./libops.so")


def orchestrate(batch):
    return ops.scale(batch, 3)


orchestrate(None)
