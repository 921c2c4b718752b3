"""What a person stated as lasting in a conversation, found by rules."""

from memoryd.engine.sessions.statements.statements import Statement, statements

__all__ = ["Statement", "statements"]
