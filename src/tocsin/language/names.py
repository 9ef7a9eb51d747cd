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


_OPERAND_WORDS = """
CROSS EXCEPT IF INNER INTERSECT INTO JOIN LAMBDA LATERAL MAP ON PARTITIONED_BY PIVOT_WIDER TABLESAMPLE UNION USING
VALUES XOR
"""
OPERANDS = frozenset(_OPERAND_WORDS.split())
"""Names where a value must stand, in upper case; elsewhere they join queries, which are refused."""
_BEFORE_OPERANDS = {
    *(TokenType.L_PAREN, TokenType.COMMA, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.BETWEEN),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.WHERE),
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE),
}


def with_names(tokens: Iterable[Any]) -> list[Any]:
    """Return the tokens of a condition in which these words are names, unless they call a function."""
    found = list(tokens)
    before = None
    for token, following in zip(found, [*found[1:], None], strict=True):
        word = token.text.upper()
        if token.token_type is not TokenType.STRING and (word in NAMES or word in OPERANDS):
            is_clause = word in _CLAUSES and _continues(following)
            is_joint = word in OPERANDS and before is not None and before not in _BEFORE_OPERANDS
            if not (is_clause or is_joint or (following is not None and following.token_type is TokenType.L_PAREN)):
                # As a VAR, some words of the second group still begin a function.
                token.token_type = TokenType.IDENTIFIER if word in OPERANDS else TokenType.VAR
        before = token.token_type
    return found


_CLAUSES = {"GROUP", "ORDER", "LIMIT", "OFFSET"}
"""They may stand in a subquery, where they are refused by name."""


def _continues(following: Any) -> bool:
    return following is not None and (following.text.upper() == "BY" or following.token_type is TokenType.NUMBER)
