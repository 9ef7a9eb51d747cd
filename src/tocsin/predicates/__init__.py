"""Phase 1: which predicates hold for an event, one attribute at a time."""
