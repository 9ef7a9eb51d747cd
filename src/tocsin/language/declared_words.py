"""Give the tests on words in a condition the analyzers that are declared for their attributes."""

from dataclasses import replace

from tocsin.language.template import map_atoms
from tocsin.model.analyzer import Analyzers, analyzed
from tocsin.model.condition import Condition, HasPhrase, HasWords, UnnestExists
from tocsin.model.expression_tree import ELEMENT, is_of_element


def with_analyzers(condition: Condition, analyzers: Analyzers, element_of: str = "") -> Condition:
    """Return a condition whose tests on words compare what the analyzers make of them.

    A test on the elements of a list is on `list.field`. An expression over attributes has no analyzer.

    >>> from tocsin.model.analyzer import Analyzer, analyzer_of
    >>> found = with_analyzers(HasWords("body", "café"), {"body": Analyzer(accents=False)})
    >>> analyzer_of(found.attribute).accents
    False
    """

    def declare(atom: Condition) -> Condition:
        if isinstance(atom, UnnestExists):
            return UnnestExists(atom.attribute, with_analyzers(atom.condition, analyzers, atom.attribute))
        if not isinstance(atom, (HasWords, HasPhrase)):
            return atom
        name = element_of + atom.attribute.removeprefix(ELEMENT) if is_of_element(atom.attribute) else atom.attribute
        analyzer = analyzers.get(name)
        if analyzer is None:
            return atom
        exact_case = atom.exact_case or analyzer.case
        return replace(atom, attribute=analyzed(atom.attribute, analyzer), exact_case=exact_case)

    return map_atoms(condition, declare) if analyzers else condition
