"""Each mistake is named, with its place in the text and the way out."""

import pytest

from tocsin.errors import SubscriptionError
from tocsin.language.bulk import normalise_texts
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse

MANY_GUARDS = " OR ".join(f"event.a = {n} AND b > {n}" for n in range(7))
MISTAKES = [
    ("price <", 6, "missing near '<'"),
    ("price < 10 AND", 11, "missing near 'AND'"),
    ("price < 10 author = 'x'", 18, "'=' is not expected"),
    ("a = 'long literal', b = 2", 18, "',' is not expected"),
    ("a = 1; b = 2", 5, "several conditions"),
    ("a = 1 AS b", 9, "'b' is not expected"),
    ("SELECT 1", None, "a subquery stands"),
    ("nofunction(a) = 1", 0, "no function nofunction"),
    ("b = 'some text' AND nofunction(a)", 20, "no function nofunction"),
    ("a ~ '(x'", 5, "missing )"),
    ("a SIMILAR TO b", 13, "must be a string"),
    ("a GLOB '[x'", 8, "is not closed"),
    ("a GLOB 'x[^y]'", 10, "different things in SQLite and DuckDB"),
    ("a LIKE ANY ()", None, ""),
    ("a LIKE ANY (SELECT b FROM history)", 19, "must be a string"),
    ("b > 1 AND count(a) > 1", 10, "count is an aggregate"),
    ("EXISTS (SELECT 1 FROM other)", None, "not on history"),
    ("EXISTS (SELECT 1 FROM history, history g)", None, "has no JOINS"),
    ("EXISTS (SELECT a FROM history LIMIT 1)", None, "has no LIMIT"),
    ("EXISTS (SELECT count(a) FROM history)", None, "count is an aggregate"),
    ("a > (SELECT sum(DISTINCT b) FROM history)", None, "Distinct is not"),
    ("(SELECT count(DISTINCT b) FROM history) > 1", None, "Distinct is not"),
    ("(SELECT count(NULL) FROM history) > 1", None, "must select one attribute"),
    ("a > (SELECT avg(b + 1) FROM history)", None, "stands in an expression"),
    ("'x' > (SELECT avg(b) FROM history)", None, "a string is compared with a number"),
    (f"1 > (SELECT sum(b) FROM history WHERE {MANY_GUARDS})", None, "too many alternatives"),
    ("EXISTS (SELECT a FROM history UNION SELECT 1)", None, "subquery on history is expected"),
    ("EXISTS (SELECT 1 FROM history WHERE a LIKE 'x')", 36, "not possible in a subquery"),
    ("EXISTS (SELECT 1 FROM history h WHERE h.a = h.b)", 38, "two attributes of one old event"),
    ("EXISTS (SELECT 1 FROM history WHERE EXISTS (SELECT 1 FROM history))", None, "contains another"),
    ("a < ANY (SELECT 5 FROM history)", None, "select one attribute"),
    ("a < ANY (SELECT b, c FROM history)", None, "select one attribute"),
    ("5 < ANY (SELECT b FROM history)", None, "compare an attribute"),
    ("a = ANY (tags)", 0, "= ANY compares a constant"),
    ("a BETWEEN 1 5", 12, "BETWEEN lacks its AND"),
    ("(a - 1 BETWEEN CASE WHEN b AND c THEN 1 END OR d) OR e BETWEEN 1 AND 2", 44, "BETWEEN lacks its AND"),
    ("a = 'x' 'y'", 8, "two strings stand side by side"),
    ("1(f)", 2, "'f' is not expected"),
    ("a > . 1", None, "a number cannot be read"),
    ("a > 5 - 1E-3_5", None, "a number cannot be read"),
    ("a + 1", 0, "a number stands where a condition"),
    ("@timestamp > 5", 1, 'as in "@timestamp"'),
    ("user-agent = 'curl'", 0, 'Quote a name such as "user-agent"'),
    ("lower(a)", 0, "a string stands where a condition"),
    ("a & 1 = 1", 0, "no operator &"),
    ("lower(a) = 5", 0, "a string is compared with a number"),
    ("year(a) = 'x'", 0, "a number is compared with a string"),
    ("'a' + 1 > b", 0, "the constant has no value: + of a string"),
    ("CAST('x' AS INT) = b", 5, "the constant has no value: a string that is no INTEGER"),
    ("CAST(a AS BLOB) = b", 5, "cannot be cast to"),
    ("CAST(a AS DECIMAL(50, 2)) = b", 5, "there is no DECIMAL(50,2)"),
    ("extract(eon FROM a) = 1", 17, "no part 'eon' of a time"),
    ("a > b + INTERVAL 'x'", 17, "'x' is not an interval"),
    ("a > INTERVAL 1 DAY", 0, "an interval is compared with no difference"),
    ("age(a) > 1", 0, "age is an interval"),
    ("EXISTS (SELECT 1 FROM history h WHERE h.a + 1 > 2)", 38, "'a' of an old event stands in an expression"),
    ("has_words(a, 'x') = TRUE", 0, "has_words is a condition, not a value"),
    ("(((((a = 1) IS NULL) IS NULL) IS NULL) IS NULL) IS NULL", 5, "IS NULL is nested too deeply"),
    (" + ".join(["a"] * 200) + " > 1", None, "the expression is nested too deeply"),
    ("CASE WHEN a THEN 1 END", None, "a number stands where a condition"),
    ("a = ?", 0, "parameters"),
    ("a = $1", 0, "parameters"),
    ("a = :name", 0, "parameters"),
    ("a IN ()", 0, "IN needs a list"),
    ("a IS 5", 0, "IS is followed by"),
    ("a BETWEEN SYMMETRIC 2 AND 1", 0, "SYMMETRIC"),
    ("a = 12ab", 4, "'12ab' is not a number"),
    ("a = 0x1F", 4, "'0x1F' is not a number"),
    ("a = 1e999", 4, "beyond every float64"),
    ("b = 'x' AND a = " + "9" * 2000, 16, "2000 characters"),
    ("a = DATE '2026-02-30'", 9, "is not a date"),
    ("a = TIMESTAMP 'noon'", 14, "is not a timestamp"),
    ("5", 0, "a constant stands where a condition"),
    ("a = 1 AND 'x'", 10, "a constant stands where a condition"),
    ("has_words(body)", 0, "takes 2 arguments, not 1"),
    ("has_words(body, 5)", 16, "must be a string"),
    ("has_words('x', 'y')", 10, "needs an attribute"),
    ("array_contains(tags, other)", 0, "looks for a constant"),
    ("a LIKE b", 7, "pattern must be a string"),
    ("a.* = 1", 0, "is not an attribute"),
    ("a[1] = 2", 0, "elements are not taken by their number"),
    ("a = 1 AND strpos(b, 'x') = 3", 10, "there is no function strpos"),
    ("a = 1 AND lpad(b, 7, 'x') = 'y'", 10, "there is no function lpad"),
    ("a = 1 AND b =< 10", 12, "there is no operator =<. Write <="),
    ("b => 10", 2, "there is no operator =>. Write >="),
    ("like = 3", None, 'quote it: "like"'),
    ("as = 3", None, 'quote it: "as"'),
]


@pytest.mark.parametrize(("text", "position", "message"), MISTAKES, ids=[text[:40] for text, _, _ in MISTAKES])
def test_mistakes_are_named(text: str, position: int | None, message: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.hint, "the way out"
    if position is not None:
        assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "has_words(a, 'x OR y')",
        "has_words(a, '?!')",
        "has_phrase(a, '')",
        "a LIKE 'x' ESCAPE 'ab'",
        "a LIKE 'x$' ESCAPE '$'",
    ],
)
def test_mistakes_in_values(text: str) -> None:
    with pytest.raises(SubscriptionError) as caught:
        normalise(parse(text))
    assert caught.value.hint


def test_a_bad_text_does_not_sink_the_others() -> None:
    texts = [text for text, _, _ in MISTAKES] + ["has_words(a, '?!')", "", None, "a = 1"]
    ids = [f"s{number}" for number in range(len(texts))]
    form = normalise_texts(texts, ids)  # type: ignore[arg-type]  # on purpose
    assert list(form.errors) == list(range(len(texts) - 1))
    assert all(error.subscription == ids[number] for number, error in form.errors.items())
    assert form.owner.tolist() == [len(texts) - 1]
    for number, (_, position, message) in enumerate(MISTAKES):
        assert message in str(form.errors[number])
        assert position in (None, form.errors[number].position)


def test_the_limit_says_how_to_raise_it() -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(4))
    assert len(normalise(parse(text), limit=8).leaves) == 16
    with pytest.raises(SubscriptionError, match=r"8 predicates, and at most 7 .*raise the limit: Limits\(predicates"):
        normalise(parse(text), limit=7)
    assert list(normalise_texts([text] * 5, limit=7).errors) == [0, 1, 2, 3, 4]
    assert len(normalise_texts([text] * 5, limit=8).owner) == 5 * 16


@pytest.mark.parametrize("good", ["a = 'x'", "a < 1"])
@pytest.mark.parametrize(
    ("bad", "message", "position"),
    [
        ("a = '\ud800'", "half a surrogate pair", 5),
        ("a = 'x\0'", "the character NUL", 6),
        ("a < \0", "the character NUL", 4),
        ("a < \0 ", "the character NUL", 4),
    ],
)
def test_bad_characters_are_named_in_texts_of_a_known_shape(good: str, bad: str, message: str, position: int) -> None:
    parse(good)
    with pytest.raises(SubscriptionError, match=message) as caught:
        parse(bad)
    assert caught.value.position == position
    form = normalise_texts([good] * 6 + [bad])
    assert form.owner.tolist() == list(range(6))
    assert message in str(form.errors[6])
