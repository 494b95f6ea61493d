"""The order of equal elements after the `std::sort` of GCC's library, as XLA:CPU calls it, in plain Python: see
`introsort`."""

from __future__ import annotations

SPLIT = 16
"""Ranges of at most so many elements are sorted by insertion, which keeps the order of equal ones."""

Element = tuple[int, int]
"""The key and where the element comes from."""


def unstable_order(keys: list[int]) -> list[int]:
    """Returns the places that the elements with these keys come from, in their order after sorting."""
    row = [(key, i) for i, key in enumerate(keys)]
    ranges = [(0, len(row), 2 * (len(row).bit_length() - 1))]
    while ranges:
        first, end, depth = ranges.pop()
        if end - first <= SPLIT:
            continue
        if depth == 0:
            row[first:end] = _heap_sorted(row[first:end])
            continue
        cut = _partition(row, first, end)
        ranges += [(first, cut, depth - 1), (cut, end, depth - 1)]
    # No element has far to go now, and none passes its equals: as any stable sort.
    row.sort(key=lambda element: element[0])
    return [i for _, i in row]


def _partition(row: list[Element], first: int, end: int) -> int:
    """Splits a range around the median of its second, middle and last element, which goes to the front."""
    a, b, c = first + 1, first + (end - first) // 2, end - 1
    if row[a][0] < row[b][0]:
        chosen = b if row[b][0] < row[c][0] else c if row[a][0] < row[c][0] else a
    else:
        chosen = a if row[a][0] < row[c][0] else c if row[b][0] < row[c][0] else b
    row[first], row[chosen] = row[chosen], row[first]
    pivot, low, high = row[first][0], first + 1, end
    while True:
        while row[low][0] < pivot:
            low += 1
        high -= 1
        while pivot < row[high][0]:
            high -= 1
        if low >= high:
            return low
        row[low], row[high] = row[high], row[low]
        low += 1


def _heap_sorted(heap: list[Element]) -> list[Element]:
    for parent in range(len(heap) // 2 - 1, -1, -1):
        _sift(heap, parent, len(heap), heap[parent])
    for size in range(len(heap) - 1, 0, -1):
        element, heap[size] = heap[size], heap[0]
        _sift(heap, 0, size, element)
    return heap


def _sift(heap: list[Element], top: int, size: int, element: Element) -> None:
    """Fills the hole at `top`: greater children move up to the last level, and `element` goes up from there."""
    hole = top
    while 2 * hole + 1 < size:
        child = 2 * hole + 2
        if child == size or heap[child][0] < heap[child - 1][0]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    while hole > top and heap[(hole - 1) // 2][0] < element[0]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = element
