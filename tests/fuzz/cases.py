"""The corpus: each difference that was ever found, minimised, as a file that every run of the tests replays.

A file is named TARGET-NAME.case and holds the case as Python writes it, after comments that say what was wrong.
"""

import datetime
import hashlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from fuzz.targets import TARGETS, Case

CORPUS = Path(__file__).parent / "corpus"
_NAMES = {"datetime": datetime, "Decimal": Decimal, "UUID": UUID, "nan": float("nan"), "inf": float("inf")}


def read(path: Path) -> Case:
    """Read the case of a file."""
    case: Case = eval(path.read_text(), dict(_NAMES))  # ours, as is the code beside it
    return case


def write(target: str, case: Case, wrong: str, folder: Path = CORPUS) -> Path:
    """Write a case; return its file."""
    text = repr(case)
    path = folder / f"{target}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:10]}.case"
    folder.mkdir(parents=True, exist_ok=True)
    said = "".join(f"# {line[:150]}\n" for line in wrong.splitlines()[:4])
    path.write_text(f"{said}{text}\n")
    return path


def replay(path: Path) -> None:
    """Check the case of a file; raises if the difference is there again."""
    TARGETS[path.name.split("-")[0]].check(**read(path))


def minimised(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """The input without whatever can be left out, by halves, quarters and so on down to single bytes.

    >>> minimised(b"abcxdefyghi", lambda data: b"x" in data and b"y" in data)
    b'xy'
    """
    size = len(data)
    while size := size // 2:
        place = 0
        while place < len(data):
            shorter = data[:place] + data[place + size :]
            if fails(shorter):
                data = shorter
            else:
                place += size
    return data
