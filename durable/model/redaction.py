"""Passwords in the URLs of stores are never shown: not in an error, a repr or a line of output."""

from __future__ import annotations

import re

# A password in a URL: between the user and the host, or as a parameter.
_PASSWORDS = (
    re.compile(r"(?P<before>\w://[^:/@\s]*:)[^@/\s]+(?=@)"),
    re.compile(r"(?P<before>[?&](?:password|sslpassword)=)[^&\s]+", re.IGNORECASE),
)


def redacted(text: str) -> str:
    """A text without the passwords of the URLs in it."""
    for password in _PASSWORDS:
        text = password.sub(r"\g<before>***", text)
    return text
