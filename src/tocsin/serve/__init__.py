"""The server: one writer process, several matching processes over the same index folder, and delivery.

`supervisor.py` starts the others and keeps them running. A client speaks to a worker (`worker.py`, `app.py`), which
answers matches itself and hands every change to the writer (`writer.py`) over a Unix socket (`frames.py`).
`board.py` is the memory that they share: the number of the newest commit, of the newest inbox entry, and counters.
"""
