"""HLO protos: the wire format, the messages, and modules read from them and written to them (`module.py`)."""
