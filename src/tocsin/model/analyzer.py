"""Analyzers: which words of a text count as the same.

Every text is folded and cut as `model/text.py` says. An analyzer goes on from there: it cuts words of scripts without
blanks, drops accents, reduces a word to its stem and to the first of its synonyms, in this order. An attribute with an
analyzer has its words in a derived attribute, `words` of it: their reduced forms with a blank between them. Indexes,
the reference and files take that for a text like any other. Its name tells the analyzer, and a subscription that has
the name is compared with the same words wherever it goes.
"""

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, cast

from tocsin.errors import MissingDependencyError, OptionError, StorageError, SubscriptionError
from tocsin.forks import cached
from tocsin.model.expression_tree import Call, derived_name, expression_of, is_derived
from tocsin.model.predicate import Word
from tocsin.model.text import compose, fold, split_words

WORDS = "words"
"""The function that a derived attribute with analysed words is a call of; no condition can name it."""
KNOWN_WORDS = 100_000
"""How many words each analyzer remembers the reduced form of."""

# Combining marks of scripts whose letters are read without them: Latin, Greek, Cyrillic. Those of Devanagari or
# Japanese make other letters, and stay.
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
    | {"Ø": "O", "Ł": "L", "Đ": "D", "Ħ": "H", "Ŧ": "T", "Æ": "AE", "Œ": "OE", "Ð": "D", "Þ": "TH"}
)
# Thai, Lao, Myanmar, Khmer, Kana, Han.
_WITHOUT_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]"
)

_known: dict[str, "Analyzer"] = {}
"""Analyzers by their names. The analyzer of an index lends its synonyms to the names that have their digest."""


@dataclass(frozen=True)
class Analyzer:
    """Say which words of an attribute's texts are the same, for `has_words` and `has_phrase`.

    `case` and `accents` tell whether these matter. `stem` names a language of PyStemmer: the forms of a word are the
    same. `segment` cuts Chinese, Japanese, Thai, Lao, Khmer and Burmese into words, by ICU. `synonyms` are groups of
    words that mean the same, or a file that has a group on each line, its words with commas between them.
    The libraries come with `pip install 'tocsin[text]'`.

    >>> Analyzer(accents=False, synonyms=[["car", "automobile"]]).words("A café, a CAR: an automobile")
    ['a', 'cafe', 'a', 'automobile', 'an', 'automobile']
    >>> Analyzer(stem="english").words("Running, he runs")
    ['run', 'he', 'run']
    """

    case: bool = False
    accents: bool = True
    stem: str | None = None
    segment: bool = False
    synonyms: "str | Path | Sequence[Sequence[str]]" = ()

    def __post_init__(self) -> None:
        groups = _read_synonyms(Path(self.synonyms)) if isinstance(self.synonyms, (str, Path)) else self.synonyms
        object.__setattr__(self, "synonyms", tuple(tuple(map(_one_word, group)) for group in groups))
        if self.case and (self.stem is not None or self.synonyms):
            raise OptionError("case matters to an analyzer with a stem or synonyms", "Leave out case, or these")
        if self.stem is not None:
            _stemmer(self.stem)
        if self.segment:
            _word_breaker()
        _known.setdefault(self.name, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Analyzer, tuple(getattr(self, one.name) for one in fields(self))

    @cached
    def is_plain(self) -> bool:
        """Whether the words are those of every text without an analyzer."""
        return not self.document()

    @cached
    def is_only_case(self) -> bool:
        """Whether the words are as written, and nothing else."""
        return self.document() == {"case": True}

    def document(self) -> dict[str, Any]:
        """The options that were given, as JSON has them."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}

    @cached
    def name(self) -> str:
        """The options as JSON text, with a digest in place of the synonyms."""
        given = self.document()
        if self.synonyms:
            given["synonyms"] = hashlib.sha256(json.dumps(self.synonyms).encode()).hexdigest()[:32]
        return json.dumps(given, separators=(",", ":"))

    @classmethod
    def named(cls, name: str) -> "Analyzer":
        """Return the analyzer of a name. Raises StorageError if its synonyms are not known in this process."""
        if name not in _known:
            given = json.loads(name)
            if "synonyms" in given:
                raise StorageError("the synonyms of an analyzer are not known", "Open the index that declares them")
            _known[name] = cls(**given)
        return _known[name]

    @cached
    def of_prefixes(self) -> "Analyzer":
        """The analyzer of the words that beginnings of words are compared with: those have no stem and no synonyms."""
        return Analyzer(self.case, self.accents, None, self.segment)

    @cached
    def of_exact_case(self) -> "Analyzer":
        """The analyzer of the words that are compared as written."""
        return self if self.case else Analyzer(True, True, None, self.segment)

    def words(self, text: str) -> list[str]:
        """Return the words of a text in their order, repeated words repeated; linear in the text."""
        reduced = self._reduced
        return [reduced.get(word) or self.reduce(word) for word in self.cut(self.fold(text))]

    def fold(self, text: str) -> str:
        """Return a text as it is cut into words."""
        return compose(text) if self.case else fold(text)

    def cut(self, folded: str) -> list[str]:
        """Return the words of a folded text, not reduced."""
        words = split_words(folded)
        if not self.segment or _WITHOUT_BLANKS.search(folded) is None:
            return words
        return [word[start:end] for word in words for start, end in self.segments(word)]

    def segments(self, run: str) -> list[tuple[int, int]]:
        """Return where the words in a run of word characters begin and end."""
        if not self.segment or _WITHOUT_BLANKS.search(run) is None:
            return [(0, len(run))]
        # ICU counts in UTF-16.
        place = dict(zip(accumulate((1 + (c > "\uffff") for c in run), initial=0), range(len(run) + 1), strict=True))
        return [(place[start], place[end]) for start, end in _word_breaker()(run, "root").segments()]

    def reduce(self, word: str) -> str:
        """Return the form by which a word of a folded text is compared."""
        if len(self._reduced) >= KNOWN_WORDS:
            self._reduced.clear()
        form = self._form(word)
        form = self._reduced[word] = self._first_synonym.get(form, form)
        return form

    @cached
    def _reduced(self) -> dict[str, str]:
        return {}

    def _form(self, word: str) -> str:
        """Return a word without accents, and its stem; each as long as it leaves one word."""
        for reduce in (_without_accents,) * (not self.accents) + ((self._stem,) if self.stem is not None else ()):
            form = self.fold(reduce(word))
            word = form if split_words(form) == [form] else word
        return word

    def _stem(self, word: str) -> str:
        return _stemmer(str(self.stem))(word)

    @cached
    def _first_synonym(self) -> dict[str, str]:
        """The first, in their order, of the words that mean the same, by each of them. Groups that meet are one."""
        groups: dict[str, set[str]] = {}
        for group in cast(Sequence[Sequence[str]], self.synonyms):
            forms = {self._form(fold(word)) for word in group}
            joint = forms.union(*(groups.get(form, ()) for form in forms))
            groups |= dict.fromkeys(joint, joint)
        return {form: min(joint) for form, joint in groups.items()}


PLAIN = Analyzer()
"""The analyzer of attributes for which none is declared."""
Analyzers = Mapping[str, Analyzer]
"""Analyzers by attribute."""
NO_ANALYZERS: Analyzers = {}


def analyzed(attribute: str, analyzer: Analyzer) -> str:
    """Return the name of the attribute that has the analysed words of another one.

    >>> name = analyzed("body", Analyzer(accents=False))
    >>> analyzer_of(name).accents, analyzed_source(name), analyzer_of("body") is PLAIN, analyzed("body", PLAIN)
    (False, 'body', True, 'body')
    """
    return attribute if analyzer.is_plain else derived_name(Call(WORDS, (expression_of(attribute),), analyzer.name))


def analyzer_of(attribute: str) -> Analyzer:
    """Return the analyzer of an attribute's words."""
    if not is_derived(attribute):
        return PLAIN
    call = expression_of(attribute)
    return Analyzer.named(call.detail) if isinstance(call, Call) and call.function == WORDS else PLAIN


def analyzed_source(attribute: str) -> str:
    """Return the attribute that has the texts of one with analysed words; others have their own."""
    call = expression_of(attribute)
    return derived_name(call.operands[0]) if isinstance(call, Call) and call.function == WORDS else attribute


class Demanded(NamedTuple):
    """What a test on words demands, as normal forms have it."""

    words: tuple[Word, ...]
    """Distinct, in their order; those of a phrase may repeat."""
    whole: str
    """The attribute that has the words."""
    prefixes: str
    """The attribute whose words begin with prefixes."""

    def attribute(self, word: Word) -> str:
        """Return the attribute that a word is looked for in."""
        return self.prefixes if word.prefix else self.whole

    def one_attribute(self) -> str:
        """Return the attribute that has all of the words. Raises SubscriptionError if none has."""
        found = set(map(self.attribute, self.words))
        if len(found) > 1:
            raise SubscriptionError(
                "near and min_words compare stems or synonyms, and a word with * has none",
                "Write whole words, or all of them with *",
            )
        return found.pop()


def demanded_words(attribute: str, text: str, exact_case: bool = False) -> Demanded:
    """Return the distinct words that `has_words` demands of an attribute; one right before ``*`` is a prefix.

    >>> demanded_words("body", "Holiday chok* holiday").words
    (Word(text='holiday', prefix=False), Word(text='chok', prefix=True))
    """
    analyzer = analyzer_of(attribute).of_exact_case if exact_case else analyzer_of(attribute)
    found: dict[Word, None] = {}
    # After each "*" a new piece begins; the last word of a piece is a prefix if the piece ended in that word.
    *starred, rest = analyzer.fold(text).split("*")
    for piece in starred:
        words = analyzer.cut(piece)
        ends_in_word = bool(words) and piece.endswith(words[-1])
        found.update((Word(analyzer.reduce(word)), None) for word in (words[:-1] if ends_in_word else words))
        if ends_in_word:
            found[Word(analyzer.of_prefixes.reduce(words[-1]), prefix=True)] = None
    found.update((Word(analyzer.reduce(word)), None) for word in analyzer.cut(rest))
    return _demanded(tuple(found), attribute, analyzer)


def demanded_phrase(attribute: str, text: str, exact_case: bool = False) -> Demanded:
    """Return the words that `has_phrase` demands of an attribute, in a row.

    >>> [word.text for word in demanded_phrase("body", "New York, New York").words]
    ['new', 'york', 'new', 'york']
    """
    analyzer = analyzer_of(attribute).of_exact_case if exact_case else analyzer_of(attribute)
    return _demanded(tuple(map(Word, analyzer.words(text))), attribute, analyzer)


def _demanded(words: tuple[Word, ...], attribute: str, analyzer: Analyzer) -> Demanded:
    source = analyzed_source(attribute)
    # A window compares the words of a plain text as they are written by itself.
    whole, prefixes = (PLAIN if one.is_only_case else one for one in (analyzer, analyzer.of_prefixes))
    return Demanded(words, analyzed(source, whole), analyzed(source, prefixes))


def words_text(text: object, name: str) -> str | None:
    """Return the words of a text as another text; None for what is no text, which has no words."""
    return " ".join(Analyzer.named(name).words(text)) if isinstance(text, str) else None


def read_analyzers(path: Path) -> Analyzers:
    """Return the analyzers that a JSON file declares, by attribute; files of synonyms lie beside it."""
    try:
        declared = json.loads(path.read_text(encoding="utf-8"))
        return {
            attribute: Analyzer(**{**given, **_synonyms_beside(path, given.get("synonyms"))})
            for attribute, given in declared.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, OptionError):
            raise
        example = '{"body": {"stem": "english", "accents": false, "synonyms": "words.txt"}}'
        raise OptionError(f"{path} does not declare analyzers: {error}", f"Write it as in {example}") from error


def _synonyms_beside(path: Path, synonyms: object) -> dict[str, Any]:
    return {"synonyms": path.parent / synonyms} if isinstance(synonyms, str) else {}


def _read_synonyms(path: Path) -> list[list[str]]:
    """Return the groups of a file: one on each line; an empty line, or one that begins with #, is none."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise OptionError(f"the synonyms {path} cannot be read: {error.strerror}", "Give the path of a file") from error
    return [[word.strip() for word in line.split(",")] for line in lines if line and not line.startswith("#")]


def _one_word(text: str) -> str:
    if not isinstance(text, str) or len(split_words(fold(text))) != 1 or split_words(fold(text)) != [fold(text)]:
        raise OptionError(f"the synonym {text!r} is not one word", "Synonyms are single words, in groups of equals")
    return text


def _without_accents(word: str) -> str:
    return _ACCENTS.sub("", unicodedata.normalize("NFD", word)).translate(_PLAIN_LETTERS)


_of_thread = threading.local()
"""The stemmers of a thread: one may not be used by two threads at a time."""


def _stemmer(language: str) -> Callable[[str], str]:
    known: dict[str, Callable[[str], str]] = _of_thread.__dict__
    if language not in known:
        try:
            import Stemmer
        except ImportError as error:
            raise MissingDependencyError("a stem needs PyStemmer", "Run pip install 'tocsin[text]'") from error
        if language not in Stemmer.algorithms():
            raise OptionError(f"there is no stem {language!r}", f"There are {', '.join(Stemmer.algorithms())}")
        known[language] = Stemmer.Stemmer(language).stemWord
    return known[language]


@cache
def _word_breaker() -> Any:
    try:
        from icu4py.breakers import WordBreaker
    except ImportError as error:
        raise MissingDependencyError("segment needs icu4py", "Run pip install 'tocsin[text]'") from error
    return WordBreaker
