"""Damaged files for everything that reads any: `./build.sh fuzz --seconds 600`, or `python -m tests.fuzz`.

Each target takes bytes and may raise our own errors only, within two seconds and a gigabyte. Inputs come from seeds
(`seeds.py`), from `corpus/TARGET/` and from what was new in this run, changed at random (`mutate.py`). New is what ends
in another way or at another line of the code than all before. What fails is made smaller and written to
`findings/TARGET/`; tests/fuzz/test_fuzz.py reads all of those.

Hosts in JavaScript try artifacts one after another in one process of Node or one page of Chromium (`javascript.py`),
and a server answers connections without sockets (`server.py`).
"""
