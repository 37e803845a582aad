"""How the teacher's work is cut into batches and files."""

import dataclasses

from keras_distill._checks import check_integer


@dataclasses.dataclass(frozen=True)
class Layout:
    """How `kd.cache.write` batches the teacher's work and cuts its files.

    The bytes of a shard depend on its own examples and on this, not on when
    it was written: a batch never reaches over two shards and is always full
    (the last one of a shard repeats its last row).

    Args:
        batch_size: Integer, rows in each of the teacher's batches.
        shard_size: Integer, examples in each file, and in memory at a time.
        lengths: Increasing sequence of integers, for inputs with a
            `padding_mask`: within a shard the teacher sees the rows sorted by
            length, each batch cut to the shortest of these lengths that holds
            it. Few shapes occur, and short rows cost little. None: all rows
            keep their width.
        batched: Boolean, whether the elements of the data set are batches.
            None: found out from the teacher's inputs, where it can be.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> Layout(batch_size=64, lengths=(16, 32, 64)).shard_size
    1024
    """

    batch_size: int = 32
    shard_size: int = 1024
    lengths: tuple | None = None
    batched: bool | None = None

    def __post_init__(self):
        check_integer("batch_size", self.batch_size, 1)
        check_integer("shard_size", self.shard_size, 1)
        if self.batched not in (None, True, False):
            raise ValueError(
                "`batched` must be True, False or None. "
                f"Received: batched={self.batched!r}"
            )
        if self.lengths is None:
            return
        lengths = tuple(self.lengths)
        for length in lengths:
            check_integer("lengths", length, 1)
        if not lengths or any(a >= b for a, b in zip(lengths, lengths[1:])):
            raise ValueError(
                f"`lengths` must increase. Received: lengths={lengths}"
            )
        object.__setattr__(self, "lengths", lengths)

    def bucket(self, longest):
        """The shortest of `lengths` that holds `longest` tokens.

        Raises:
            ValueError: if none does.
        """
        for length in self.lengths:
            if longest <= length:
                return length
        raise ValueError(
            f"`lengths` must hold the longest row, which has {longest} tokens. "
            f"Received: lengths={self.lengths}"
        )

    @property
    def identity(self):
        """What the bytes of the shards depend on, as JSON holds it."""
        return {
            "batch_size": self.batch_size,
            "shard_size": self.shard_size,
            "lengths": None if self.lengths is None else list(self.lengths),
        }
