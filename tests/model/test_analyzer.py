"""Which words are the same: judged by PyStemmer, unicodedata and ICU themselves."""

import json
import pickle
import re
import subprocess
import sys
import threading
import unicodedata
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import Stemmer
from hypothesis import example, given
from hypothesis import strategies as st
from icu4py.breakers import WordBreaker

from tocsin import Analyzer, Matcher
from tocsin.errors import MissingDependencyError, OptionError, StorageError
from tocsin.language.parse import parse
from tocsin.model.analyzer import analyzed, analyzer_of, demanded_words, read_analyzers
from tocsin.model.predicate import Word
from tocsin.model.text import exact_tokens, tokens
from tocsin.reference import evaluate
from tocsin.serve.backtest import of_events

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = [["car", "automobile", "Auto"], ["quick", "fast"], ["fast", "speedy"]]
ANALYZERS = {
    "plain": Analyzer(),
    "accents": Analyzer(accents=False),
    "english": Analyzer(stem="english"),
    "french": Analyzer(stem="french", accents=False),
    "german": Analyzer(stem="german", accents=False, synonyms=GROUPS),
    "turkish": Analyzer(stem="turkish"),
    "synonyms": Analyzer(stem="english", accents=False, synonyms=GROUPS),
    "case": Analyzer(case=True),
    "case and accents": Analyzer(case=True, accents=False),
    "segments": Analyzer(segment=True),
    "all": Analyzer(stem="english", accents=False, segment=True, synonyms=GROUPS),
}
WORDS = ["running", "Runs", "ran", "CAR", "cars", "automobiles", "auto", "fast", "Speedy", "élève", "Eleve", "eleves"]
WORDS += ["crème", "CREME", "cre\u0300me", "Straße", "strasse", "naïveté", "अनुच्छेद", "x_1", "İstanbul", "ガギ", "ø", "o"]
WORDS += ["東京都", "京都", "สวัสดีชาวโลก", "ไทย", "𠮷野家", "naïvement"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=7).map(" - ".join) | st.text(max_size=20)


def naive_words(analyzer: Analyzer, text: str) -> list[str]:
    """The words of a text in plain Python, with the libraries themselves; groups of synonyms as their joint set."""
    folded = unicodedata.normalize("NFC", text)
    if not analyzer.case:
        folded = unicodedata.normalize("NFC", folded.casefold()) if not folded.isascii() else folded.lower()
    runs = re.findall("|".join(re.escape(run) for run in tokens_of(folded)) or "(?!)", folded)
    if analyzer.segment:
        runs = [piece for run in runs for piece in by_icu(run)]
    return [naive_form(analyzer, run) for run in runs]


def tokens_of(folded: str) -> list[str]:
    """The runs of letters, numbers, marks and underscores, longest first."""
    runs, run = set(), ""
    for character in f"{folded} ":
        if character == "_" or character.isalnum() or unicodedata.category(character)[0] == "M":
            run += character
        elif run:
            runs.add(run)
            run = ""
    return sorted(runs, key=len, reverse=True)


def by_icu(run: str) -> list[str]:
    scripts = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
    if not any(unicodedata.name(character, "").startswith(scripts) for character in run):
        return [run]
    data = run.encode("utf-16-le")
    return [data[2 * a : 2 * b].decode("utf-16-le") for a, b in WordBreaker(run, "root").segments()]


def naive_form(analyzer: Analyzer, word: str) -> str:
    forms = [reduced(analyzer, word)]
    if analyzer.synonyms:
        joint = [{reduced(analyzer, one.casefold()) for one in group} for group in GROUPS]
        joint[1:] = [joint[1] | joint[2]]
        forms += [min(group) for group in joint if forms[0] in group]
    return forms[-1]


def reduced(analyzer: Analyzer, word: str) -> str:
    if not analyzer.accents:
        bare = "".join(c for c in unicodedata.normalize("NFD", word) if not is_accent(c))
        bare = unicodedata.normalize("NFC", bare.replace("ø", "o").replace("ı", "i"))
        word = bare or word
    return Stemmer.Stemmer(analyzer.stem).stemWord(word) if analyzer.stem else word


def is_accent(character: str) -> bool:
    blocks = ((0x300, 0x36F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF), (0xFE20, 0xFE2F))
    return any(first <= ord(character) <= last for first, last in blocks)


@pytest.mark.parametrize("name", ANALYZERS)
@given(st.lists(st.sampled_from(WORDS), max_size=7).map(" - ".join))
@example(" ".join(WORDS))
def test_words_are_those_of_the_libraries(name: str, text: str) -> None:
    assert ANALYZERS[name].words(text) == naive_words(ANALYZERS[name], text)


@pytest.mark.parametrize("name", ANALYZERS)
@given(st.text(max_size=30) | TEXTS)
@example("\u0301 \u0301\u0301")
@example("<\u0338 a\u0345 ŉ ﬁ Ⓐ")
def test_analysed_words_are_the_words_of_their_text(name: str, text: str) -> None:
    """What indexes, windows and files read as a text falls into the same words again."""
    analyzer = ANALYZERS[name]
    words = analyzer.words(text)
    assert (exact_tokens if analyzer.case else tokens)(" ".join(words)) == words
    if analyzer.is_plain:
        assert words == tokens(text)


@pytest.mark.parametrize("language", Stemmer.algorithms())
def test_every_stem_leaves_words(language: str) -> None:
    words = Analyzer(stem=language).words(" ".join(WORDS))
    assert words == tokens(" ".join(words))
    assert len(words) == len(tokens(" ".join(WORDS)))


def has_words(there: list[str], wanted: list[str], near: int = 10**9, min_words: int = 0) -> bool:
    distinct = list(dict.fromkeys(wanted))
    places = [[place for place, word in enumerate(there) if word == one] for one in distinct]
    return any(
        max(chosen) - min(chosen) <= near
        for several in combinations(places, min_words or len(distinct))
        for chosen in product(*several)
    )


def has_phrase(there: list[str], wanted: list[str], slop: int = 0) -> bool:
    places = [[place for place, word in enumerate(there) if word == one] for one in wanted]
    return any(
        list(chosen) == sorted(set(chosen)) and chosen[-1] - chosen[0] - len(wanted) + 1 <= slop
        for chosen in product(*places)
    )


@given(
    st.sampled_from(list(ANALYZERS)),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=3),
    st.integers(1, 4),
    st.lists(st.none() | st.lists(st.sampled_from(WORDS), max_size=7).map(" - ".join), min_size=1, max_size=10),
)
@example("synonyms", ["running", "car"], 2, ["An automobile: it runs", "runs", None])
@example("french", ["élève", "crème"], 3, ["les eleves, la CREME"])
@example("all", ["東京都", "car"], 3, ["東京都 cars", "東京"])
def test_every_way_equals_the_naive_definition(
    name: str, words: list[str], number: int, texts: list[str | None]
) -> None:
    analyzer = ANALYZERS[name]
    wanted = naive_words(analyzer, " ".join(words))
    prefix = words[0][:3]
    start = naive_words(Analyzer(case=analyzer.case, accents=analyzer.accents), prefix)[0]
    exact = re.findall(r"\w+", unicodedata.normalize("NFC", words[0]))
    asked: dict[str, Callable[[str], bool]] = {
        f"has_words(body, '{' '.join(words)}')": lambda text: set(wanted) <= set(naive_words(analyzer, text)),
        f"has_phrase(body, '{' '.join(words)}')": lambda text: has_phrase(naive_words(analyzer, text), wanted),
        f"has_words(body, '{' '.join(words)}', near => {number})": lambda text: has_words(
            naive_words(analyzer, text), wanted, number
        ),
        f"has_words(body, '{' '.join(words)}', min_words => 1)": lambda text: bool(
            set(wanted) & set(naive_words(analyzer, text))
        ),
        f"has_phrase(body, '{' '.join(words)}', slop => {number})": lambda text: has_phrase(
            naive_words(analyzer, text), wanted, number
        ),
    }
    if not analyzer.segment:
        bare = Analyzer(case=analyzer.case, accents=analyzer.accents)
        asked[f"has_words(body, '{prefix}*')"] = lambda text: any(
            word.startswith(start) for word in naive_words(bare, text)
        )
        if len(exact) == 1 and analyzer.accents:
            asked[f"has_words(body, '{words[0]}', exact_case => TRUE)"] = lambda text: exact[0] in exact_tokens(text)
    conditions = {form.format(text): (text, form) for text in asked for form in ("{}", "NOT ({})")}
    declared = {"body": analyzer}
    matcher = Matcher.from_table(pa.table({"id": list(conditions), "where": list(conditions)}), analyzers=declared)
    assert matcher.rejected == []
    expected = [
        set() if text is None else {one for one, (of, form) in conditions.items() if asked[of](text) == (form == "{}")}
        for text in texts
    ]
    events = [{"body": text} for text in texts]
    found: list[set[str]] = [set() for _ in texts]
    for row in matcher.match_batch(events * 5).slice(0).to_pylist():
        if row["event"] < len(texts):
            found[row["event"]].add(row["subscription"])
    assert found == expected
    for event, those in zip(events, expected, strict=True):
        assert set(matcher.match(event).ids) == those
        assert {one for one in conditions if evaluate(parse(one, declared), event) is True} == those
        assert {one for one in conditions if matcher.explain(event, one).matches} == those


def subscribed(**options: Any) -> Matcher:
    matcher = Matcher(analyzers={"body": ANALYZERS["all"], "items.name": ANALYZERS["french"]}, **options)
    matcher.subscribe("run", "has_words(body, 'running automobile')")
    matcher.subscribe("phrase", "has_phrase(body, 'fast cars')")
    matcher.subscribe("tokyo", "has_words(body, '東京')")
    matcher.subscribe("item", "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE has_words(i.name, 'creme'))")
    return matcher


EVENTS: list[dict[str, Any]] = [
    {"body": "He runs after a CAR"},
    {"body": "Speedy automobiles"},
    {"body": "東京都に"},
    {"body": "京都に"},
    {"items": [{"name": "Les crèmes"}]},
    {"body": 5, "items": [{"name": 7}]},
]
EXPECTED = [["run"], ["phrase"], ["tokyo"], [], ["item"], []]


@pytest.mark.parametrize("kind", ["auto", "reference", "count"])
def test_every_matcher_takes_them(kind: Any) -> None:
    matcher = subscribed(matcher=kind)
    assert [matcher.match(event).ids for event in EVENTS] == EXPECTED


def test_an_index_keeps_them(tmp_path: Path) -> None:
    subscribed().save(tmp_path)
    # Another process knows the synonyms from the index alone.
    code = "import json, sys; from tocsin import Matcher; matcher = Matcher.open(sys.argv[1]); "
    code += "matcher.subscribe('new', \"has_words(body, 'speedily autos')\"); matcher.commit(); matcher.compact(); "
    code += "print(json.dumps([matcher.match(event).ids for event in json.loads(sys.argv[2])]))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path, json.dumps(EVENTS)], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == EXPECTED
    with Matcher.open(tmp_path, mode="read") as opened:
        assert opened.options.analyzers["body"] == ANALYZERS["all"]
        assert "new" in opened


def test_the_reference_keeps_them_too(tmp_path: Path) -> None:
    subscribed(matcher="reference").save(tmp_path)
    with Matcher.open(tmp_path) as opened:
        assert [opened.match(event).ids for event in EVENTS] == EXPECTED


@pytest.mark.usefixtures("unhurried_audit")
def test_an_audit_judges_by_them(tmp_path: Path) -> None:
    matcher = subscribed(audit=1.0, audit_log=tmp_path / "log")
    matcher.match_batch(EVENTS)
    assert matcher.audit is not None
    assert (matcher.audit.judged, matcher.audit.wrong) == (4 * len(EVENTS), 0)


def test_changes_compare_by_them() -> None:
    before, after = [{"id": "a", "where": "has_words(body, 'runs')"}], [{"id": "a", "where": "has_words(body, 'run')"}]
    standing = Matcher.from_table(before, analyzers={"body": ANALYZERS["english"]})
    assert list(Matcher.of_changes(standing, after)) == []
    assert list(Matcher.of_changes(before, after)) == ["+a", "-a"]


def test_a_condition_that_is_tried_has_them() -> None:
    answer = of_events(subscribed().alike(), "has_words(body, 'runner autos')", None, [{"body": "runner, car"}], None)
    assert answer["hits"] == 1


def test_threads_stem_at_once() -> None:
    analyzer = Analyzer(stem="german")
    texts = [" ".join(f"{word}{number}en" for word in ("lauf", "spiel", "wander")) for number in range(300)]
    expected = [naive_words(analyzer, text) for text in texts]
    found: list[list[list[str]]] = []
    threads = [threading.Thread(target=lambda: found.append([*map(analyzer.words, texts)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_they_are_values() -> None:
    assert pickle.loads(pickle.dumps(ANALYZERS["all"])) == ANALYZERS["all"]
    assert Analyzer(stem="english") != Analyzer(stem="german")
    assert analyzer_of(analyzed("body", ANALYZERS["all"])) == ANALYZERS["all"]


def test_a_prefix_is_compared_with_the_words_as_they_are() -> None:
    demanded = demanded_words(analyzed("body", ANALYZERS["synonyms"]), "Cars runni* café*")
    assert demanded.words == (Word("auto"), Word("runni", prefix=True), Word("cafe", prefix=True))
    assert analyzer_of(demanded.prefixes) == Analyzer(accents=False)


def test_files_declare_them(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("# vehicles\ncar, automobile\n\nquick, fast\n", encoding="utf-8")
    (tmp_path / "a.json").write_text('{"body": {"stem": "english", "synonyms": "words.txt"}, "title": {}}')
    declared = read_analyzers(tmp_path / "a.json")
    expected = Analyzer(stem="english", synonyms=[["car", "automobile"], ["quick", "fast"]])
    assert declared == {"body": expected, "title": Analyzer()}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stem": "klingon"}, "there is no stem 'klingon'. There are arabic"),
        ({"synonyms": [["new york", "nyc"]]}, "'new york' is not one word"),
        ({"synonyms": [["a => b"]]}, "is not one word"),
        ({"synonyms": [["", "b"]]}, "is not one word"),
        ({"synonyms": "nowhere.txt"}, "nowhere.txt cannot be read"),
        ({"case": True, "stem": "english"}, "Leave out case"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Analyzer(**options)


@pytest.mark.parametrize("text", ["[]", "{", '{"body": {"stemmer": 1}}', '{"body": 5}'])
def test_files_that_declare_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(OptionError, match="does not declare analyzers"):
        read_analyzers(tmp_path / "a.json")


def test_near_does_not_mix_stems_and_prefixes() -> None:
    matcher = Matcher(analyzers={"body": ANALYZERS["english"]})
    [error] = matcher.subscribe_many([{"id": "a", "where": "has_words(body, 'run walk*', near => 3)"}])
    assert "a word with * has none" in error.message


@pytest.mark.parametrize(
    ("module", "options"), [("Stemmer", {"stem": "danish"}), ("icu4py.breakers", {"segment": True})]
)
def test_what_is_not_installed_is_named(module: str, options: dict[str, Any]) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from tocsin import Analyzer; Analyzer(**{options})"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "pip install 'tocsin[text]'" in done.stderr
    assert MissingDependencyError.__name__ in done.stderr


def test_unknown_synonyms_are_an_error() -> None:
    with pytest.raises(StorageError, match="Open the index that declares them"):
        Analyzer.named('{"synonyms":"00"}')
