"""PHASE 2: which conjunctions hold, given codes and the tests that hold."""
