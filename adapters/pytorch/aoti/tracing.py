"""Find the first NaN or infinity among a model's printed values, and the call that made it (aoti_reading.W2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from livedbg.adapters.pytorch.aoti.generated import Call
from livedbg.adapters.pytorch.aoti.printed import Launch, Value, launches
from livedbg.adapters.pytorch.aoti.sources import Model


class Trail(Struct, kw_only=True):
    """The first bad value and its origin.

    Attributes:
        call: the call that made or got it.
        made: that call made it.
        infinite: it made it of infinity.
        source: the call that made this infinity of finite numbers, and in what; None if that is not known.
        hands: the kernel to print next.
    """

    sentence: str
    value: Value
    call: Call | None = None
    model: Model | None = None
    made: bool = False
    infinite: bool = False
    source: tuple[Call, str] | None = None
    reads: list[Value] = field(default_factory=list)
    hands: dict[str, str] = field(default_factory=dict)


def first_bad(printed: Sequence[Value], code: Sequence[Model]) -> Trail | None:
    """Return the first meaningful NaN (aoti_printed.V1), or else the first infinity.

    An infinity seen after a NaN may be intended, as in masks.
    """
    return _first(printed, code, lambda value: value.bad == "NaN") or _first(
        printed, code, lambda value: bool(value.bad)
    )


def _first(printed: Sequence[Value], code: Sequence[Model], wrong: Callable[[Value], bool]) -> Trail | None:
    good = {value.argument for value in printed if value.when == "input" and not wrong(value)}
    for value in printed:
        if value.when == "input" and wrong(value):
            return Trail(sentence=f"The model gets {value.bad}: its input {value.argument}.", value=value, made=True)
    before: dict[int, Launch] = {}  # by the index of the call, of this model
    last: Model | None = None
    for launch, call, model in _launched(printed, code):
        if model is not last:
            before, last = {}, model
        trail = _of_launch(launch, call, model, good, wrong, before=before)
        if trail is not None:
            return trail
        if call is not None:
            before[call.index] = launch
    return None


def _finite(before: Mapping[int, Launch]) -> set[str]:
    """Return the buffers that were finite when they were last printed."""
    latest = {value.argument: not value.bad for launch in before.values() for value in launch.after}
    return {name for name, finite in latest.items() if finite}


def _unwritten(name: str, call: Call, model: Model) -> bool:
    """Return whether memory was only allocated when a call began, or written in parts: it has no value then."""
    known = {*dict(call.makers), *model.code.inputs.values(), *model.code.constants}
    return name in model.code.allocated and name not in known


def _source_of(name: str, call: Call, model: Model, before: Mapping[int, Launch]) -> tuple[Call, str] | None:
    """Return the call that made a bad value that another one got, as far as launches were printed, and in what."""
    makers = dict(call.makers)
    while name in makers:
        made = model.code.calls[makers[name]]
        launch = before.get(made.index)
        if launch is None:
            return None
        got = (value for value in launch.before if value.argument in made.reads and value.bad)
        came = next((value.argument for value in got if not _unwritten(value.argument, made, model)), None)
        if came is None:
            return made, name
        name, makers = came, dict(made.makers)
    return None


def written(printed: Sequence[Value], code: Sequence[Model]) -> Iterator[Value]:
    """Yield the values that calls wrote: before a launch an output buffer is uninitialised (aoti_printed.V1)."""
    for launch, call, _ in _launched(printed, code):
        yield from (value for value in launch.after if call is None or value.argument in call.writes)


def _launched(printed: Sequence[Value], code: Sequence[Model]) -> Iterator[tuple[Launch, Call | None, Model | None]]:
    seen: Counter[str] = Counter()
    for launch in launches(printed):
        yield launch, *_call_of(launch, seen[launch.kernel], code)
        seen[launch.kernel] += 1


def _call_of(launch: Launch, number: int, code: Sequence[Model]) -> tuple[Call | None, Model | None]:
    """Return the call of a kernel's n-th launch.

    It is the only call with these arguments (kernels of several models may share a name), or else calls of one name are
    launched in code order, repeatedly.
    """
    arguments = {value.argument for value in (*launch.before, *launch.after)}
    fitting = [
        (call, model)
        for model in code
        for call in model.code.named(launch.kernel)
        if arguments <= {*call.reads, *call.writes}
    ]
    if len(fitting) == 1:
        return fitting[0]
    named = [(model, calls) for model in code if (calls := model.code.named(launch.kernel))]
    if len(named) != 1:
        return None, None
    model, calls = named[0]
    call = calls[number % len(calls)]
    return (call, model) if arguments & {*call.reads, *call.writes} else (None, model)


def _of_launch(
    launch: Launch,
    call: Call | None,
    model: Model | None,
    good: Iterable[str],
    wrong: Callable[[Value], bool],
    *,
    before: Mapping[int, Launch],
) -> Trail | None:
    if call is None or model is None:
        bad = next((value for value in launch.after if wrong(value)), None)
        if bad is None:
            return None
        return Trail(
            sentence=f"After {launch.kernel} there is {bad.bad} in {bad.argument}. Its call was not found in generated "
            "code: whether it made that is not known.",
            value=bad,
        )
    told = f"{call.shown} {_where(call)}"
    empty = {name for name in call.reads if _unwritten(name, call, model)}
    reads = [value for value in launch.before if value.argument in call.reads and value.argument not in empty]
    came = next((value for value in reads if wrong(value)), None)
    makers = dict(call.makers)
    if came is not None:
        return _trail_of_input(came, call, model, makers.get(came.argument))
    its = {*call.writes, *call.reads}
    bad = next((value for value in launch.after if wrong(value) and value.argument in its), None)
    if bad is None:
        return None
    known = {value.argument for value in reads} | empty | set(good) | _finite(before) | set(model.code.constants)
    unseen = [name for name in call.reads if name not in known]
    if unseen:
        return Trail(
            sentence=f"After {told} there is {bad.bad} in {bad.argument}. It also reads "
            f"{', '.join(unseen)}, which was not printed: it may have got it there.",
            value=bad,
            call=call,
            model=model,
            reads=reads,
            hands=_kernels([call, *(model.code.calls[makers[name]] for name in unseen if name in makers)]),
        )
    constants = [name for name in call.reads if name in model.code.constants]
    weights = ", ".join(model.code.constants[name] or name for name in constants)
    but = f" Not printed, and may have it: {weights} of the model." if constants else ""
    large = next((value for value in reads if value.bad), None)
    source = None
    if large is not None:
        origin = makers.get(large.argument)
        maker = model.code.calls[origin] if origin is not None else None
        source = _source_of(large.argument, call, model, before)
        who = ""
        if maker is not None and source is not None and source[0] is not maker:
            who = (
                f", which {maker.shown} {_where(maker)} passed on; {source[0].shown} {_where(source[0])} made it "
                f"first, in {source[1]}"
            )
        elif maker is not None:
            who = f", which {maker.shown} {_where(maker)} made"
        sentence = f"{told} made {bad.bad} of {large.bad} in {large.argument}{who}.{but}"
    else:
        sentence = f"{told} produced the first {bad.bad}; its inputs have none.{but}"
    return Trail(
        sentence=sentence,
        value=bad,
        call=call,
        model=model,
        made=True,
        infinite=large is not None,
        source=source,
        reads=reads,
    )


def _trail_of_input(value: Value, call: Call, model: Model, maker: int | None) -> Trail:
    if maker is None:
        who = "an input of the model" if value.argument in model.code.inputs.values() else "whose maker was not found"
        sentence = f"{call.shown} {_where(call)} gets {value.bad} in {value.argument}, {who}."
        return Trail(sentence=sentence, value=value, call=call, model=model)
    made = model.code.calls[maker]
    sentence = (
        f"{call.shown} {_where(call)} gets {value.bad} in {value.argument}, which {made.shown} {_where(made)} made."
    )
    return Trail(sentence=sentence, value=value, call=made, model=model, hands=_kernels([made]))


def _where(call: Call) -> str:
    return f"(call {call.index + 1})"


def _kernels(calls: Iterable[Call]) -> dict[str, str]:
    names = dict.fromkeys(call.name for call in calls if not call.operator)
    return {"kernel": ",".join(names)} if names else {}
