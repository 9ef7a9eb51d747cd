"""Match events against millions of standing subscriptions, exactly and fast, in process or on Spark.

>>> import tocsin
>>> matcher = tocsin.Matcher()
>>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
>>> list(matcher.match({"author": "Smith", "price": 12}))
[('smith', 2.0)]
"""

from tocsin.engine.explain import Explanation
from tocsin.engine.matcher import Matcher
from tocsin.errors import (
    EventError,
    MissingDependencyError,
    OptionError,
    StorageError,
    SubscriptionError,
    TocsinError,
    UnknownSubscriptionError,
)
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
