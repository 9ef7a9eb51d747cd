"""Texts rewritten by a table are those that Python makes; `tests/test_kernels.py` runs this uncompiled."""

import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.predicates.folding import FOLD, IN_PYTHON, LOWER, TABLE_END, Rewriting, rewrite_texts
from tocsin.predicates.texts import TextBytes, as_bytes

REWRITINGS = [pytest.param(LOWER, id="lower"), pytest.param(FOLD, id="fold")]
# Letters that fold to two or three, that compose, that do so with a vowel sign or a jamo, marks of several classes.
NEIGHBOURS = "aIſßŸİΣςΐÅ\u00c5\u212b\u0345e\u0301\u0323\u0334ক\u09c7\u09beकः\u093c\u094d가\u1100\u1161\u11a8中👍\u200d"
TEXTS = st.lists(st.text(NEIGHBOURS, max_size=6) | st.text(max_size=6), max_size=5)


def decoded(texts: TextBytes) -> list[str]:
    return [texts.data[a:b].tobytes().decode() for a, b in zip(texts.offsets, texts.offsets[1:], strict=False)]


def ascii_lowered(text: str) -> str:
    """Letters of ASCII, which the rewriting leaves as they are, in lower case."""
    return "".join(each.lower() if each.isascii() else each for each in text)


@pytest.mark.parametrize("rewriting", REWRITINGS)
@given(texts=TEXTS)
@example(texts=["e\u0301", "É", "Straße", "\u0323\u0301", "\u0301\u0323", "가\u11a8", "A"])
def test_a_column_is_rewritten_as_python_does(rewriting: Rewriting, texts: list[str]) -> None:
    column = pa.array(["no", *texts, None], pa.string())[1:]
    assert [ascii_lowered(text) for text in decoded(as_bytes(column, rewriting))] == [
        *map(rewriting.function, texts),
        "",
    ]


@pytest.mark.parametrize("rewriting", REWRITINGS)
@given(texts=TEXTS)
def test_what_the_kernel_rewrites_is_right_and_the_rest_is_as_it_was(rewriting: Rewriting, texts: list[str]) -> None:
    read = as_bytes(pa.array(texts, pa.string()))
    wide = np.array([not text.isascii() for text in texts], bool)
    offsets, data, in_python = rewrite_texts(*read, wide, rewriting.table())
    for text, new, left in zip(texts, decoded(TextBytes(offsets, data)), in_python, strict=True):
        assert new == text if left else ascii_lowered(new) == rewriting.function(text)


@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_prose_is_not_left_to_python(rewriting: Rewriting) -> None:
    prose = [
        "Ça n’a aucune importance, Straße",
        "Съешь ещё этих булок",
        "Ξεσκεπάζω τὴν ψυχή",
        "中文和日本語",
        "한국어",
        "हिन्दी",
    ]
    read = as_bytes(pa.array(prose))
    in_python = rewrite_texts(*read, np.ones(len(prose), bool), rewriting.table())[2]
    assert not in_python.any()


@pytest.mark.slow
@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_every_code_point_alone_and_behind_a_letter(rewriting: Rewriting) -> None:
    every = [chr(code) for code in range(128, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    for texts in (every, ["a" + each for each in every], ["é" + each + "\u0301" for each in every]):
        new = decoded(as_bytes(pa.array(texts), rewriting))
        assert [ascii_lowered(text) for text in new] == [rewriting.function(text) for text in texts]
    beyond = [each for each in every if ord(each) >= TABLE_END]
    assert all(rewriting.function("a" + each) == "a" + each for each in beyond)
    assert (rewriting.table().class_of != IN_PYTHON)[:TABLE_END].mean() > 0.9
