"""The command line: what it takes, prints and writes."""
