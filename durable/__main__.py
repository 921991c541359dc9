"""`durable` and `python -m durable`: the command line, which needs the optional dependency click."""

from __future__ import annotations

import sys

try:
    from durable.cli.app import main
except ModuleNotFoundError as missing:
    if missing.name != "click":
        raise
    sys.exit("the command line of durable needs click: pip install 'durable-engine[cli]'")

if __name__ == "__main__":
    sys.exit(main())
