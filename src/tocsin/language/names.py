"""Words that begin statements of SQL, and are names in a condition."""

from collections.abc import Iterable
from typing import Any

from sqlglot import TokenType

_WORDS = """
ALTER ANALYZE ATTACH BEGIN CACHE CALL COMMENT COMMIT CONNECT COPY CREATE DELETE DESC DESCRIBE DETACH DISCONNECT DROP
EXECUTE EXPLAIN FETCH FORCE GRANT GROUP INSERT INSTALL KILL LIMIT LOAD MERGE OFFSET ONLY OPTIMIZE ORDER OUTER PIVOT
POSITIONAL PRAGMA PREPARE QUALIFY RENAME RESET RETURNING REVOKE ROLLBACK SET SHOW SUMMARIZE TABLE TRUNCATE UNCACHE
UNPIVOT UPDATE USE VACUUM
"""
NAMES = frozenset(_WORDS.split())
"""In upper case."""


def with_names(tokens: Iterable[Any]) -> list[Any]:
    """Return the tokens of a condition in which these words are names, unless they call a function."""
    found = list(tokens)
    for token, following in zip(found, [*found[1:], None], strict=True):
        if token.text.upper() in NAMES and token.token_type is not TokenType.STRING:
            is_clause = token.text.upper() in _CLAUSES and _continues(following)
            if not is_clause and (following is None or following.token_type is not TokenType.L_PAREN):
                token.token_type = TokenType.VAR
    return found


_CLAUSES = {"GROUP", "ORDER", "LIMIT", "OFFSET"}
"""They may stand in a subquery, where they are refused by name."""


def _continues(following: Any) -> bool:
    return following is not None and (following.text.upper() == "BY" or following.token_type is TokenType.NUMBER)
