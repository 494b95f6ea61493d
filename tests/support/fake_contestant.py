"""Stands in for a contestant of the benchmarks: gives the results that its arguments say, in no time.

When it is timed it may end ("dies"), or spoil what it gives from then on ("spoils").
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    path, kind, *faults = sys.argv[1:]
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "time" and "dies" in faults:
            print("out of memory", file=sys.stderr)
            return
        if request["do"] == "time" and "spoils" in faults:
            Path(path).write_bytes(bytes(len(Path(path).read_bytes())))
        answers = {
            "prepare": {"modes": ["call"]},
            "results": {"results": [{"path": path, "type": kind}]},
            "release": {"resident": 0},
        }
        answer = {"ms": [1.0] * request["samples"]} if request["do"] == "time" else answers[request["do"]]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
