"""Tocsin on Spark: DataFrames of events in, DataFrames of matches out."""

from tocsin.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401 (imported here for the error below)
except ImportError as error:
    raise MissingDependencyError("tocsin.spark needs PySpark", "Run pip install 'tocsin[spark]'") from error

from tocsin.spark._placement.ship import Index
from tocsin.spark.backtest import SparkBacktest, backtest
from tocsin.spark.build import build
from tocsin.spark.delivery import Inboxes, deliver
from tocsin.spark.evidence import MatchEvidence, last_evidence
from tocsin.spark.match import match
from tocsin.spark.session import local_session
from tocsin.spark.sinks import Batch, BatchRecord, BatchTable
from tocsin.spark.streaming import stream

__all__ = [
    "Batch",
    "BatchRecord",
    "BatchTable",
    "Inboxes",
    "Index",
    "MatchEvidence",
    "SparkBacktest",
    "backtest",
    "build",
    "deliver",
    "last_evidence",
    "local_session",
    "match",
    "stream",
]
