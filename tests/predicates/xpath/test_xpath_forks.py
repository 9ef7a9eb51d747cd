"""A path of lxml is locked while it is evaluated: a forked child must not wait for what its parent was evaluating."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import forking
from tocsin.predicates.xpath import expression, oracle, parse_xpath
from tocsin.predicates.xpath.document import read_document

DOCUMENT = "<a><b/><b/></a>"


class _Endless(Sequence[Any]):
    """A variable that lxml reads for as long as the test wants, with the path locked."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Any]:
        self.begun.set()
        self.go_on.wait(forking.LONG)
        return iter(())

    def __getitem__(self, place: Any) -> Any:
        raise IndexError(place)


def _of_steps() -> Callable[..., Any]:
    return oracle._compiled(parse_xpath("/a/b").paths[0])[0]


def _of_rest() -> Callable[..., Any]:
    rest = parse_xpath("/a/b[last()]").rest
    assert rest is not None
    return expression._compiled(rest)


@pytest.mark.parametrize(("text", "compiled"), [("/a/b", _of_steps), ("/a/b[last()]", _of_rest)])
def test_a_child_evaluates_a_path_whatever_another_thread_was_evaluating(
    text: str, compiled: Callable[[], Callable[..., Any]]
) -> None:
    root, endless = read_document(DOCUMENT), _Endless()
    thread = threading.Thread(target=lambda: compiled()(root.getroottree(), endless=endless))
    thread.start()
    assert endless.begun.wait(forking.LONG)
    try:
        assert forking.forked(lambda: oracle.evaluate(parse_xpath(text), DOCUMENT), seconds=20) is True
    finally:
        endless.go_on.set()
        thread.join()
