"""What tests share: programs, values and artifacts, comparisons, and what starts other engines."""
