"""Match events against millions of standing subscriptions, exactly and fast, in process or on Spark.

>>> import tocsin
>>> matcher = tocsin.Matcher()
>>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
>>> list(matcher.match({"author": "Smith", "price": 12}))
[('smith', 2.0)]
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.errors import (
        EventError,
        MissingDependencyError,
        OptionError,
        StorageError,
        SubscriptionError,
        TocsinError,
        UnknownSubscriptionError,
    )
    from tocsin.index.explanation import Explanation
    from tocsin.matcher import Matcher
    from tocsin.model.result import Evidence, Matches
    from tocsin.model.subscription import Subscription

__all__ = [
    "EventError",
    "Evidence",
    "Explanation",
    "Matcher",
    "Matches",
    "MissingDependencyError",
    "OptionError",
    "StorageError",
    "Subscription",
    "SubscriptionError",
    "TocsinError",
    "UnknownSubscriptionError",
]

_HOMES = {
    "Explanation": "tocsin.index.explanation",
    "Matcher": "tocsin.matcher",
    "Evidence": "tocsin.model.result",
    "Matches": "tocsin.model.result",
    "Subscription": "tocsin.model.subscription",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is: the indexes and their compiler take a second to load."""
    if name not in __all__:
        raise AttributeError(f"module 'tocsin' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "tocsin.errors")), name)
