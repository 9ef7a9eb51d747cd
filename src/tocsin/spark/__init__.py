"""Tocsin on Spark: DataFrames of events in, DataFrames of matches out."""

from tocsin.errors import MissingDependencyError

try:
    import pyspark  # noqa: F401 (asked for here so that a missing one is named)
except ImportError as error:
    raise MissingDependencyError("tocsin.spark needs PySpark", "Run pip install 'tocsin[spark]'") from error

from tocsin.spark.batch import match
from tocsin.spark.index import Index, build
from tocsin.spark.session import local_session

__all__ = ["Index", "build", "local_session", "match"]
