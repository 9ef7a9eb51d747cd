"""The coverage-guided fuzzer needs atheris, which is not there for the tests."""

collect_ignore = ["guided.py"]
