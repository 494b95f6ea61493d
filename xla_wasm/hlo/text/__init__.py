"""HLO text, read (`parser.py`) and printed (`printer.py`)."""
