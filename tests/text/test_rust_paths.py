"""Rust's paths without their angle brackets."""

from __future__ import annotations

import pytest

from livedbg.analysis.place_names import function_name, plain_name, plain_path


@pytest.mark.parametrize(
    ("function", "plain"),
    [
        ("<A as T>::f", "A::f"),
        ("<alloc::vec::Vec<u8>>::push", "alloc::vec::Vec::push"),
        ("alloc::vec::Vec::<u8>::push", "alloc::vec::Vec::push"),
        ("<<A as core::iter::Iterator>::Item as T>::f", "A::Item::f"),
        ("<&mut app::Queue<u8> as app::Work>::run::{closure#0}", "app::Queue::run::{closure#0}"),
        ("<alloc::boxed::Box<dyn Fn(u8) -> u8 + core::marker::Send> as F>::call", "alloc::boxed::Box::call"),
        ("<dyn app::Job + core::marker::Send as app::T>::f", "app::Job::f"),
        ("core::fmt::num::<impl core::fmt::Debug for u32>::fmt", "core::fmt::num::fmt"),
        ("core::ptr::drop_in_place::<app::Queue>", "core::ptr::drop_in_place"),
        ("<[T] as app::Work<U>>::run", "app::Work::run"),
        ("<(A, B) as app::Work>::run", "app::Work::run"),
        ("<fn(i32) -> i32 as app::Work>::run", "app::Work::run"),
        ("<[T]>::len", "len"),
        ("Pool::<lambda(std::function<void()>)>::operator()(int) const", "Pool::lambda"),
        ("ns::operator<(int, int)", "ns::operator<"),
        ("app::Engine::run<int>(int)", "app::Engine::run"),
        ("std::_State_impl<std::_Invoker<std::tuple<main::{lambda()#1}> > >::_M_run()", "std::_State_impl::_M_run"),
    ],
)
def test_plain_names(function: str, plain: str) -> None:
    assert plain_name(function) == plain


@pytest.mark.parametrize("name", ["<a", "a::<b", "<" * 2000, "a::<" * 500, "<<A as B", "->", ""])
def test_a_name_whose_brackets_do_not_match_stays(name: str) -> None:
    assert plain_path(name) == name
    assert function_name(name) or not name
