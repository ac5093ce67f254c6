# SPDX-License-Identifier: BSD-3-Clause
"""A file of columns: what the tables of a trace are views of, and what the cache keeps.

    columns, each at a multiple of 64 bytes | a JSON document that says where | trailer

The trailer has the document's size, its digest and that of the columns, so that a file which was
damaged or not written to its end is recognised. The file is mapped, never copied.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fabtrace.reader import native
from fabtrace.tables import (
    ELEMENTS,
    Column,
    Discarded,
    Problem,
    Ragged,
    Stream,
    Table,
    Tables,
    dtype_of,
    kinds_of,
)

ALIGNMENT = 64
BLOCK = 1 << 22  # bytes that the digest looks at at a time
TRAILER = struct.Struct("<QQQ8s")  # document size, its digest, columns' digest, magic
MAGIC = b"FABTCOL1"


class Damaged(Exception):
    """The file is not what was written."""


@dataclass
class Part:
    """An array in the file: where it begins, how many elements, and how many are written."""

    dtype: Any
    offset: int
    count: int
    written: int = 0


@dataclass
class ColumnsFile:
    """A file of columns that is being written. Sizes are known before: they are laid out at once."""

    path: Path
    size: int = 0
    parts: dict[tuple[str, str, str], Part] = field(default_factory=dict)

    def __enter__(self) -> ColumnsFile:
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def lay_out(self, event: str, column: str, role: str, dtype: Any, count: int) -> None:
        """Reserve the place of an array. `role`: values, or starts of ragged rows."""
        self.parts[(event, column, role)] = Part(np.dtype(dtype), self.size, count)
        size = count * np.dtype(dtype).itemsize
        self.size += -(-size // ALIGNMENT) * ALIGNMENT

    def append(self, event: str, column: str, role: str, values: Column) -> None:
        """Write the next elements of an array. Columns may be written by several threads."""
        part = self.parts[(event, column, role)]
        assert values.dtype == part.dtype and part.written + len(values) <= part.count
        data = values.data.cast("B") if len(values) else memoryview(b"")
        offset = part.offset + part.written * part.dtype.itemsize
        while data:
            done = os.pwrite(self.descriptor, data, offset)
            data, offset = data[done:], offset + done
        part.written += len(values)

    def view(self, event: str, column: str, role: str) -> Column:
        """An array that is written, mapped to be changed."""
        part = self.parts[(event, column, role)]
        if not part.count:
            return np.zeros(0, part.dtype)
        return np.memmap(self.path, part.dtype, "r+", part.offset, part.count)

    def finish(self, document: dict[str, Any]) -> None:
        """Write the document and the trailer; all columns must be there."""
        assert all(part.written == part.count for part in self.parts.values())
        os.ftruncate(self.descriptor, self.size)
        layout = [
            [event, column, role, part.offset, part.count]
            for (event, column, role), part in self.parts.items()
        ]
        text = json.dumps({**document, "layout": layout}).encode()
        trailer = TRAILER.pack(
            len(text), native.digest(text, 0), digest_of(self.descriptor, self.size), MAGIC
        )
        data = memoryview(text + trailer)
        offset = self.size
        while data:
            done = os.pwrite(self.descriptor, data, offset)
            data, offset = data[done:], offset + done


def digest_of(descriptor: int, size: int) -> int:
    """The digest of a file's first bytes; its pages are given back as it goes."""
    digest = 0
    if size == 0:
        return digest
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        for offset in range(0, size, BLOCK):
            digest = native.digest(view[offset : offset + BLOCK], digest)
            mapped.madvise(mmap.MADV_DONTNEED, offset, min(BLOCK, size - offset))
        del view  # or the mapping could not be closed
    return digest


def open_columns(path: Path, key: str, fresh: bool = False) -> Tables:
    """The tables in a file; Damaged if it isn't sound, or was made of something else than `key` says.

    `fresh`: it was written a moment ago, so its content need not be looked at.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < TRAILER.size:
            raise Damaged
        trailer = os.pread(file.fileno(), TRAILER.size, size - TRAILER.size)
        length, text_digest, digest, magic = TRAILER.unpack(trailer)
        end = size - TRAILER.size - length
        if magic != MAGIC or end < 0:
            raise Damaged
        text = os.pread(file.fileno(), length, end)
        if len(text) != length or native.digest(text, 0) != text_digest:
            raise Damaged
        document = json.loads(text)
        if document.get("key") != key:
            raise Damaged
        if not fresh and digest_of(file.fileno(), end) != digest:
            raise Damaged
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return tables_of(document, mapped, end)
    except (KeyError, TypeError, ValueError, IndexError):
        raise Damaged from None  # written by somebody else's program


def tables_of(document: dict[str, Any], mapped: mmap.mmap, end: int) -> Tables:
    """Views of the mapped file."""
    arrays: dict[tuple[str, str, str], Column] = {}
    for event, name, role, offset, count in document["layout"]:
        kind = kinds_of(event)[name]
        dtype = np.dtype(np.int64 if role == "starts" else ELEMENTS.get(kind, dtype_of(kind)))
        if offset < 0 or count < 0 or offset + count * dtype.itemsize > end:
            raise ValueError
        # numpy refuses to view nothing at the end of a buffer.
        view = np.frombuffer(mapped, dtype, count, offset) if count else np.zeros(0, dtype)
        arrays[(event, name, role)] = view
    tables = {event: table_of(event, arrays) for event in document["events"]}
    return Tables(
        tables,
        frozenset(document["declared"]),
        tuple(document["environments"]),
        tuple(Discarded(*item) for item in document["discarded"]),
        document["source"],
        tuple(Stream(*item) for item in document["streams"]),
        {event: tuple(names) for event, names in document["missing"].items()},
        tuple(Problem(*item) for item in document["problems"]),
        release=lambda: mapped.madvise(mmap.MADV_DONTNEED),
    )


def table_of(event: str, arrays: dict[tuple[str, str, str], Column]) -> Table:
    """One event's columns."""
    columns: dict[str, Column | Ragged] = {}
    lengths = set()
    for name, kind in kinds_of(event).items():
        values = arrays[(event, name, "values")]
        if kind in ELEMENTS:
            starts = arrays[(event, name, "starts")]
            if starts[0] != 0 or starts[-1] != len(values) or np.any(starts[1:] < starts[:-1]):
                raise ValueError
            columns[name] = Ragged(starts, values, kind == "text")
        else:
            columns[name] = values
        lengths.add(len(columns[name]))
    if len(lengths) != 1:
        raise ValueError
    return Table(event, columns)


def roles_of(kind: str) -> Iterator[tuple[str, Any]]:
    """The arrays that a column of this kind consists of, with their types."""
    if kind in ELEMENTS:
        yield "starts", np.int64
        yield "values", ELEMENTS[kind]
    else:
        yield "values", dtype_of(kind)
