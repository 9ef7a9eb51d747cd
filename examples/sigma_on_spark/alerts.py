"""Sigma rules over log events on Spark: alerts by severity, each with the reason.

Run it in this folder, with Tocsin and its extras `spark` and `sigma` installed: ``python alerts.py``
"""

import json
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everyone names it)

import tocsin
from tocsin import spark as tocsin_spark
from tocsin.importers.sigma import SCORES, import_rules

HERE = Path(__file__).parent
LEVELS = {score: level for level, score in SCORES.items()}


def find_alerts(session: SparkSession) -> list[str]:
    """Return a text for each alert, the most severe first."""
    rules = import_rules([HERE / "rules"])
    for error in rules.rejected:
        print("left out:", error)

    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "rules")
        matcher = tocsin.Matcher()
        for rule in rules.subscriptions:
            matcher.subscribe(rule.id, rule.where, score=rule.score, tags=rule.tags)
        matcher.save(index)

        # A real pipeline reads tables or a stream here; the rest stays as it is.
        events = session.read.json(str(HERE / "events.jsonl"))
        matches = tocsin_spark.match(events, index, id="id", keep_columns=["host", "at"])
        alerts = matches.orderBy(F.desc("score"), "event").collect()

        # A few alerts are explained where they are read; a million are not.
        lines = (HERE / "events.jsonl").read_text(encoding="utf-8").splitlines()
        event_of = {event["id"]: event for event in map(json.loads, lines)}
        texts = []
        for alert in alerts:
            title = matcher[alert.subscription].tags["title"]
            reason = matcher.explain(event_of[alert.event], alert.subscription)
            texts.append(f"{LEVELS[alert.score]}: {title} on {alert.host} at {alert.at}\n{reason}")
        return texts


if __name__ == "__main__":
    with tocsin_spark.local_session() as session:
        print("\n\n".join(find_alerts(session)))
