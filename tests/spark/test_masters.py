"""The same query where the index must travel: on a Spark Connect server, and on executors of their own.

Each runs in a process of its own, since a process can have only one kind of session.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_cases

SCRIPT = """
import json, os, sys
from pathlib import Path
import pyspark
import spark_cases
from tocsin import spark as tocsin_spark
from tocsin.spark.java import java_environment
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
builder = SparkSession.builder
master = sys.argv[1]
builder = builder.config("spark.sql.shuffle.partitions", 2)
builder = builder.remote(master[8:]) if master.startswith("connect:") else builder.master(master)
with java_environment():
    spark = builder.getOrCreate()
events = spark.createDataFrame([(1, 2, {"b": 5}), (2, 3, {"b": None})], "key int, a int, s struct<b:int>")
wheres = [("two", "a = 2"), ("nested", "s.b > 4"), ("bad", "a >")]
index = tocsin_spark.build(spark.createDataFrame(wheres, "id string, where string"))
record = [("record", "a > ALL (SELECT a FROM history)")]
records = tocsin_spark.build(spark.createDataFrame(record, "id string, where string"))
in_order = tocsin_spark.match(events, records, id="key", order="key")
changed = spark.createDataFrame([("two", "a = 3"), ("nested", "4 < s.b")], "id string, where string")
tested = tocsin_spark.backtest(events, spark.createDataFrame(wheres[:2], "id string, where string"), changed, id="key")
rules = spark.createDataFrame([(7, "a = 2", {"user": "ada"})], "id int, where string, tags map<string,string>")
texts = spark.createDataFrame([(1, "x"), (2, "y"), (3, "z")], "key int, a string").repartition(2)
evidence, none = tocsin_spark.MatchEvidence(), tocsin_spark.MatchEvidence()
columns = ["where", "user"]
typed = tocsin_spark.match(events, rules, id="key", subscription_columns=columns)
answer = {
    "history": sorted(row["event"] for row in in_order.collect()),
    "matches": sorted(map(list, tocsin_spark.match(events, index, id="key", evidence=evidence).collect())),
    "no matches": tocsin_spark.match(texts, index, id="key", keep_columns=["a"], evidence=none).collect(),
    "evidence": [evidence.get().events, evidence.get().matches, none.get().events, none.get().mismatches],
    "again": tocsin_spark.match(events, index, id="key").count(),
    "rejected": [row["subscription"] for row in index.rejected.collect()],
    "changes": sorted(map(list, tested.changes.collect())),
    "columns": [list(row) for row in typed.collect()],
    "last evidence": tocsin_spark.last_evidence().matches,
    "session": type(spark).__module__,
}
if sys.argv[3:] == ["suite"]:
    answer["suite"] = spark_cases.on_spark(spark, Path(sys.argv[2]))
found = tocsin_spark.match(events, rules, id="key")
delivered = tocsin_spark.deliver(found, sys.argv[2] + "/inboxes", index=tocsin_spark.build(rules), tag="user")
inboxes = tocsin_spark.Inboxes(sys.argv[2] + "/inboxes", tag="user").read(spark)
answer["delivered"] = [delivered.matches, [row["inbox"] for row in inboxes.collect()]]
spark.stop()
print("ANSWER" + json.dumps(answer))
"""


def answer_of(master: str, folder: Path, *more: str) -> dict[str, object]:
    # For every JVM that starts: the launcher, the driver, the executor.
    environment = {**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", SCRIPT, master, str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ANSWER"))
    answer = json.loads(line.removeprefix("ANSWER"))
    assert isinstance(answer, dict)
    return answer


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "session"),
    [
        ("connect:local[2]", "pyspark.sql.connect.session"),
        pytest.param("local-cluster[1,2,1024]", "pyspark.sql.session", marks=pytest.mark.cluster),
    ],
)
def test_the_index_reaches_workers_that_do_not_see_the_folders_of_the_driver(
    master: str, session: str, tmp_path: Path
) -> None:
    assert answer_of(master, tmp_path) == {
        "history": [1, 2],
        "matches": [[1, "nested", 1.0], [1, "two", 1.0]],
        "no matches": [],
        "evidence": [2, 2, 3, {"a": 3}],
        "again": 2,
        "rejected": ["bad"],
        "changes": [[1, "two", "lost"], [2, "two", "gained"]],
        "columns": [[1, 7, 1.0, "a = 2", "ada"]],
        "last evidence": 2,
        "session": session,
        "delivered": [1, ["ada"]],
    }


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("master", ["connect:local[2]", "local-cluster[1,2,1024]"])
def test_every_family_answers_as_in_process(master: str, tmp_path: Path) -> None:
    """The suite, with streams; a Spark Connect server gives the Python process of a stream ten seconds to start."""
    suite, expected = answer_of(master, tmp_path, "suite")["suite"], spark_cases.expected()
    assert isinstance(suite, dict)
    assert [way for way in expected if suite[way] != expected[way]] == []
