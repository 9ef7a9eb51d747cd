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
    from tocsin.conjunctions.protocol import Step
    from tocsin.errors import (
        EventError,
        MissingDependencyError,
        OptionError,
        StorageError,
        SubscriptionError,
        TenantLimitError,
        TocsinError,
        UnknownSubscriptionError,
    )
    from tocsin.files.backtest import Backtest, backtest
    from tocsin.files.event_files import read_events
    from tocsin.files.subscription_files import SubscriptionFile, read_subscriptions
    from tocsin.index.explanation import Explanation, Verdict
    from tocsin.index.history import History
    from tocsin.index.plan import Plan
    from tocsin.index.stats import Statistics
    from tocsin.index.tenant_usage import TenantUsage
    from tocsin.matcher import Matcher
    from tocsin.model.analyzer import Analyzer
    from tocsin.model.limits import Limits
    from tocsin.model.result import Evidence, Matches
    from tocsin.model.subscription import Subscription
    from tocsin.model.values import Kind

    __version__: str

__all__ = [
    "Analyzer",
    "Backtest",
    "EventError",
    "Evidence",
    "Explanation",
    "History",
    "Kind",
    "Limits",
    "Matcher",
    "Matches",
    "MissingDependencyError",
    "OptionError",
    "Plan",
    "Statistics",
    "Step",
    "StorageError",
    "Subscription",
    "SubscriptionError",
    "SubscriptionFile",
    "SubscriptionWarning",
    "TenantLimitError",
    "TenantUsage",
    "TocsinError",
    "UnknownSubscriptionError",
    "Verdict",
    "backtest",
    "read_events",
    "read_subscriptions",
]

_HOMES = {
    "Analyzer": "tocsin.model.analyzer",
    "Backtest": "tocsin.files.backtest",
    "Evidence": "tocsin.model.result",
    "Explanation": "tocsin.index.explanation",
    "History": "tocsin.index.history",
    "Kind": "tocsin.model.values",
    "Limits": "tocsin.model.limits",
    "Matcher": "tocsin.matcher",
    "Matches": "tocsin.model.result",
    "Plan": "tocsin.index.plan",
    "Statistics": "tocsin.index.stats",
    "Step": "tocsin.conjunctions.protocol",
    "Subscription": "tocsin.model.subscription",
    "SubscriptionFile": "tocsin.files.subscription_files",
    "SubscriptionWarning": "tocsin.model.subscription",
    "TenantUsage": "tocsin.index.tenant_usage",
    "Verdict": "tocsin.index.explanation",
    "backtest": "tocsin.files.backtest",
    "read_events": "tocsin.files.event_files",
    "read_subscriptions": "tocsin.files.subscription_files",
}
"""Where an export is defined; errors are in `tocsin.errors`."""


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is: the indexes and their compiler take a second to load."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("tocsin")
    if name not in __all__:
        raise AttributeError(f"module 'tocsin' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "tocsin.errors")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
