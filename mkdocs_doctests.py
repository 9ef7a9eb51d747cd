"""An extension of the site's reference: doctests, which Markdown takes for quotations, are shown as code."""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*(?:\n.*\S.*)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fence the doctests of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
