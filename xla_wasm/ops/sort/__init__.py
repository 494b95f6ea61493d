"""Sorts and the greatest elements, by any comparator."""
