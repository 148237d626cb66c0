"""What a pattern of a catchpoint matches."""

from __future__ import annotations

import pytest

from livedbg.model.catchpoints import Moment, Pattern, patterns_of
from livedbg.session.catch_options import presets


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("std::runtime_error", "std::runtime_error", True),
        ("runtime_error", "std::runtime_error", False),
        ("std::runtime", "std::runtime_error", False),
        ("*_error", "std::runtime_error", True),
        ("std::*", "app::std::Error", False),
        ("std::*_error", "std::runtime_error<int>", False),
        ("app::Full<int>", "app::Full<int>", True),
        ("app::Full", "app::Full<int>", False),
        ("app::Full<*>", "app::Full<int>", True),
        ("App::*", "app::Full", False),
        ("/runtime/", "std::runtime_error", True),
        ("/^runtime/", "std::runtime_error", False),
    ],
)
@pytest.mark.invariant("catchpoints.H1")
def test_H1_names_and_globs_match_whole_names(text: str, name: str, matches: bool) -> None:
    assert Pattern(text).matches([name]) is matches
    assert Pattern(text).matches(["other", name]) is matches
    assert not Pattern(text, but=[name]).matches([name])


@pytest.mark.invariant("catchpoints.H2")
def test_H2_a_preset_catches_what_it_shows() -> None:
    assert len(presets()) > 5
    for name, preset in presets().items():
        moment, patterns = patterns_of(name, presets())
        assert (moment, tuple(pattern.text for pattern in patterns)) == (preset.moment, preset.patterns)
        assert preset.about and preset.patterns
        for left_out in preset.but:
            assert not any(pattern.matches(["Some", left_out]) for pattern in patterns)


@pytest.mark.parametrize(
    ("word", "moment"), [("throw", Moment.THROW), ("rethrow", Moment.RETHROW), ("catch", Moment.CATCH)]
)
def test_the_words_of_gdb_mean_every_exception_and_no_type_of_that_name(word: str, moment: Moment) -> None:
    when, patterns = patterns_of(word, presets())
    assert when is moment and [pattern.matches(["std::out_of_range"]) for pattern in patterns] == [True]
