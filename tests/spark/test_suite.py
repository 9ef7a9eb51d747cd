"""One suite, every way to run: each family of predicates gives the answers of the matcher in process.

Here on `local[2]`; `test_cluster.py` runs it on a standalone cluster, `test_masters.py` (slow) on Spark Connect.
"""

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest
from pyspark.testing import assertDataFrameEqual

import spark_cases
from spark_cases import ALL, FAMILIES, IN_ORDER, WAYS, WAYS_IN_ORDER, Answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def answers(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    return spark_cases.on_spark(spark, tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Answer]:
    return spark_cases.expected()


def of(family: str, answer: Answer) -> Answer:
    return [match for match in answer if match[1].startswith(f"{family}: ")]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("way", [*WAYS, *WAYS_IN_ORDER])
def test_each_family_answers_as_in_process(
    answers: dict[str, Answer], expected: dict[str, Answer], way: str, family: str
) -> None:
    assert of(family, answers[way]) == of(family, expected[way])
    # Each subscription decides: it matches some of the events.
    assert {id for _, id in of(family, answers[way])} == {f"{family}: {id}" for id in FAMILIES[family]}


@pytest.mark.parametrize("way", WAYS_IN_ORDER)
def test_history_answers_as_in_process(answers: dict[str, Answer], expected: dict[str, Answer], way: str) -> None:
    assert of("history", answers[way]) == of("history", expected[way])
    assert {id for _, id in answers[way]} == set(IN_ORDER)


def test_the_reference_agrees(expected: dict[str, Answer]) -> None:
    assert spark_cases.in_process(ALL, matcher="reference") == expected["rows"]
    assert spark_cases.in_process(IN_ORDER, remember=True, matcher="reference") == expected["in order"]


def test_duckdb_agrees(spark: "SparkSession") -> None:
    columns = list(zip(*spark_cases.rows(), strict=True))
    events = pa.table(dict(zip(("key", "a", "b", "s"), map(pa.array, columns), strict=True)))
    judge = duckdb.connect()
    judge.register("events", events)
    answers = [
        (key, name)
        for name, where in spark_cases.WHERES.items()
        for (key,) in judge.execute(f"SELECT key FROM events WHERE {where}").fetchall()
    ]
    schema = "event long, subscription string"
    ours = spark.createDataFrame(spark_cases.few_in_process(), schema)
    assertDataFrameEqual(ours, spark.createDataFrame(answers, schema))
