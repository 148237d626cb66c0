"""Runs inside gdb (its Python, 3.4 or later): walks the threads of a core file.

Not imported by livedbg; the unwinder has gdb `source` it. Prints nothing; its functions return what `json.dumps` takes.
"""

import gdb

_OUTERMOST = getattr(gdb, "FRAME_UNWIND_OUTERMOST", 1)


def _threads(tids):
    wanted = None if tids is None else set(tids)
    for thread in gdb.selected_inferior().threads():
        if wanted is None or thread.ptid[1] in wanted:
            yield thread


def _named(frame):
    """Return function, file and line of a frame; None where gdb can't tell (a name may be invalid text)."""
    name = file = line = None
    try:
        name = frame.name()
    except (gdb.error, ValueError):
        pass
    try:
        place = frame.find_sal()
        line = place.line or None
        file = place.symtab.filename if place.symtab is not None else None
    except (gdb.error, ValueError):
        pass
    return [name, file, line]


def livedbg_counters(tids, depth):
    """Return tid -> program counters, innermost first."""
    found = {}
    for thread in _threads(tids):
        thread.switch()
        counters = []
        try:
            frame = gdb.newest_frame()
            while frame is not None and len(counters) < depth:
                counters.append(int(frame.pc()))
                frame = frame.older()
        except gdb.error:
            pass
        found[thread.ptid[1]] = counters
    return found


def livedbg_frames(tids, depth):
    """Return tid -> [[[pc, function, file, line], ...], whether the outermost frame was reached]."""
    found = {}
    names = {}
    for thread in _threads(tids):
        thread.switch()
        frames = []
        whole = False
        try:
            frame = gdb.newest_frame()
            while frame is not None:
                if len(frames) == depth:
                    break
                pc = int(frame.pc())
                inlined = frame.type() == gdb.INLINE_FRAME
                key = (pc, inlined, len(frames) == 0)
                if inlined or key not in names:
                    names[key] = [pc, *_named(frame)]
                frames.append(names[key])
                older = frame.older()
                if older is None:
                    whole = frame.unwind_stop_reason() == _OUTERMOST or _named(frame)[0] in ("main", "_start")
                frame = older
        except gdb.error:
            pass
        found[thread.ptid[1]] = [frames, whole]
    return found
