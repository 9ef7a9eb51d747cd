"""Every index of path expressions keeps the contract of `Matcher(xpath=...)`."""

from typing import get_args

import pytest

from contracts.xpath_index_contract import XPathIndexContract
from tocsin import Matcher
from tocsin.errors import OptionError
from tocsin.registry import XPathName


@pytest.mark.parametrize("chosen", get_args(XPathName))
class TestXPathIndex(XPathIndexContract):
    @pytest.fixture(autouse=True)
    def choose(self, chosen: XPathName) -> None:
        self.name = chosen


def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(OptionError, match="there is no XPath index 'b-tree'"):
        Matcher(xpath="b-tree")  # type: ignore[arg-type]
