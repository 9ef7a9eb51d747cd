"""Fuzz texts or documents by coverage, with atheris: `make fuzz-guided TARGET=text MINUTES=10`.

Inputs that reach new branches of Tocsin are kept in build/fuzz/TARGET and tried again by the next run. Kernels run as
plain Python, so that their branches count too. A difference is minimised and written to the corpus, and the run goes
on; an input that takes longer than 20 s ends it.
"""

import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tocsin"]):
    from fuzz.cases import minimised, write
    from fuzz.targets import TARGETS, Case

from random_xpath import RandomXPath
from text_strategies import CLAUSES, SPACES, WORDS

KEPT = Path("build", "fuzz")
CASES: dict[str, Callable[[bytes], Case]] = {
    "text": lambda data: {"text": data.decode(errors="ignore")},
    "xml": lambda data: {"document": data},
}
TAGS = ["<a", "<p:b", "</a>", "/>", "<![CDATA[", "]]>", "<!--", "-->", "<?", "?>", "&amp;", "&#50;", "<!DOCTYPE a ["]


def seeds(target: str) -> Iterable[str]:
    """What the first run begins with."""
    return CLAUSES if target == "text" else [RandomXPath(number).document() for number in range(100)]


def place_of(error: Exception | None) -> str:
    """What tells one difference from another: the error and the line that raised it."""
    if error is None:
        return ""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}: {place.line}"


def main(target: str, minutes: float) -> None:
    """Fuzz a target; does not return."""

    def error_of(data: bytes) -> Exception | None:
        try:
            TARGETS[target].check(**CASES[target](data))
        except Exception as error:
            return error
        return None

    seen: set[str] = set()

    def check(data: bytes) -> None:
        wrong = place_of(error_of(data))
        if wrong and wrong not in seen:
            seen.add(wrong)
            smallest = minimised(data, lambda shorter: place_of(error_of(shorter)) == wrong)
            print(write(target, CASES[target](smallest), wrong), flush=True)

    folder = KEPT / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (folder / f"seed-{number}").write_text(seed)
    words = [word.strip() for word in (WORDS + SPACES if target == "text" else TAGS) if word.strip()]
    escaped = ["".join(f"\\x{byte:02x}" for byte in word.encode()) for word in words]
    dictionary = KEPT / f"{target}.dict"
    dictionary.write_text("".join(f'"{word}"\n' for word in escaped))
    options = [f"-dict={dictionary}", "-timeout=20", "-max_len=400", "-rss_limit_mb=4096", f"-artifact_prefix={KEPT}/"]
    atheris.Setup([sys.argv[0], str(folder), f"-max_total_time={round(60 * minutes)}", *options], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
