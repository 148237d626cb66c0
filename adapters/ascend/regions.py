"""Whether two tensor arguments touch the same elements (shape, start offset and strides in elements)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Region"]


@dataclass(frozen=True, slots=True)
class Region:
    """The elements that an argument covers in its buffer.

    Attributes:
        start: offset of its first element.
        shape: elements per dimension.
        strides: distance of neighbours per dimension, as many as `shape`.
    """

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def end(self) -> int:
        """One past its last element."""
        return (
            self.start + 1 + sum((size - 1) * abs(step) for size, step in zip(self.shape, self.strides, strict=False))
        )

    def overlaps(self, other: Region) -> bool:
        """Whether both certainly share an element.

        Exact for contiguous regions and for tiles of one row-major array; for others the answer is
        no unless one starts at the other's first element.
        """
        if 0 in self.shape or 0 in other.shape:
            return False
        if self.end <= other.start or other.end <= self.start:
            return False
        if self.start == other.start or (self._contiguous and other._contiguous):
            return True
        if len(self.strides) != len(other.strides) or self.strides != other.strides:
            return False
        return self._tiles_overlap(other)

    @property
    def _contiguous(self) -> bool:
        expected = 1
        for size, step in zip(reversed(self.shape), reversed(self.strides), strict=False):
            if size > 1 and step != expected:
                return False
            expected *= size
        return True

    def _tiles_overlap(self, other: Region) -> bool:
        mine, others = self.start, other.start
        order = sorted(range(len(self.strides)), key=lambda axis: -abs(self.strides[axis]))
        for axis in order:
            step = abs(self.strides[axis])
            if step == 0:
                continue
            first, mine = divmod(mine, step)
            second, others = divmod(others, step)
            if first + self.shape[axis] <= second or second + other.shape[axis] <= first:
                return False
        return True
