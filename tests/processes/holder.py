"""A foreign process with the store's file open: `python holder.py FILE STATEMENT…` runs the statements.

It prints `held`, waits for a line, lets go and prints `free`. It uses SQLite and knows nothing about durable.
"""

from __future__ import annotations

import sqlite3
import sys

if __name__ == "__main__":
    file, *statements = sys.argv[1:]
    connection = sqlite3.connect(file, isolation_level=None)
    for statement in statements:
        connection.execute(statement).fetchall()
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.readline()
    connection.close()
    sys.stdout.write("free\n")
    sys.stdout.flush()
