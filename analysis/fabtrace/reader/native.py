# SPDX-License-Identifier: BSD-3-Clause
"""The plugin's own functions (analysis/native/api.h): the library that Babeltrace loads as a plugin
is opened once more by ctypes, which gives the same handle, so that its columns can be seen here.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.errors import FabtraceError
from fabtrace.tables import Column

FILE = "babeltrace-plugin-fabt.so"
RUN = np.dtype([("source", np.uint32), ("count", np.uint32), ("first", np.uint64)])

Runs = npt.NDArray[Any]  # of RUN


class View(ctypes.Structure):
    """struct fabt_view"""

    _fields_ = [
        ("values", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("rows", ctypes.c_uint64),
        ("elements", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
    ]


class Side(ctypes.Structure):
    """struct group_side"""

    _fields_ = [
        ("owners", ctypes.c_void_p),
        ("ops", ctypes.c_void_p),
        ("rows", ctypes.c_uint64),
    ]


def places() -> list[Path]:
    """Folders where the plugin may be: beside the installed package, in a build folder."""
    here = Path(__file__).resolve()
    build = os.environ.get("FABT_BUILD")
    return [
        here.parents[2] / "plugins",
        *([Path(build) / "analysis" / "native"] if build else []),
        here.parents[3] / "build" / "analysis" / "native",
    ]


def folder() -> Path:
    """The folder that holds the plugin."""
    found = next((place for place in places() if (place / FILE).is_file()), None)
    if found is None:
        raise FabtraceError(
            f"{FILE} is missing: build it with `meson setup build && ninja -C build` "
            f"(libbabeltrace2-dev must be installed), or set FABT_BUILD to the build folder"
        )
    return found


@cache
def library() -> Any:
    """The plugin as a library, its functions declared."""
    path = folder() / FILE
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise FabtraceError(f"{path} cannot be loaded: {error}; build it again") from None
    functions: dict[str, tuple[Any, list[Any]]] = {
        "fabt_collector_new": (
            ctypes.c_int64,
            [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_void_p],
        ),
        "fabt_collector_delete": (None, [ctypes.c_int64]),
        "fabt_collector_flush": (ctypes.c_int, [ctypes.c_int64]),
        "fabt_collector_next_source": (ctypes.c_int, [ctypes.c_int64]),
        "fabt_collector_describe": (ctypes.c_void_p, [ctypes.c_int64]),
        "fabt_free": (None, [ctypes.c_void_p]),
        "fabt_collector_view": (
            ctypes.c_int,
            [ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(View)],
        ),
        "fabt_merge_order": (
            ctypes.c_int64,
            [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p],
        ),
        "fabt_merge_gather": (
            None,
            [
                ctypes.c_void_p,
                ctypes.c_size_t,
                ctypes.c_void_p,
                ctypes.c_uint64,
                ctypes.c_void_p,
            ],
        ),
        "fabt_group_number": (
            ctypes.c_int64,
            [
                ctypes.c_void_p,
                ctypes.c_uint,
                ctypes.c_void_p,
                ctypes.c_uint64,
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.c_uint32,
                ctypes.c_uint32,
            ],
        ),
        "fabt_group_bounds": (
            ctypes.c_int,
            [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, *[ctypes.c_void_p] * 3],
        ),
        "fabt_group_order": (
            ctypes.c_int,
            [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, *[ctypes.c_void_p] * 2],
        ),
        "fabt_group_join": (
            ctypes.c_int64,
            [
                ctypes.c_void_p,
                ctypes.c_uint64,
                ctypes.POINTER(Side),
                ctypes.POINTER(Side),
                *[ctypes.c_void_p] * 3,
            ],
        ),
        "fabt_digest": (ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64]),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(loaded, name, None)
        if function is None:
            raise FabtraceError(f"{path} is of another version: build it again")
        function.restype, function.argtypes = result, arguments
    return loaded


class Collector:
    """A collector that sink.fabt.columns fills (see api.h). `spill`: the file that chunks go to."""

    def __init__(
        self, spill: Path | None = None, chunk_rows: int = 0, progress: int | None = None
    ) -> None:
        path = None if spill is None else os.fsencode(spill)
        self.id = int(library().fabt_collector_new(path, chunk_rows, progress))
        if self.id < 0:
            raise OSError(-self.id, os.strerror(-self.id), str(spill or "memory"))

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        library().fabt_collector_delete(self.id)

    def flush(self) -> None:
        """Write what is left to the spill file, also after a graph has failed."""
        code = library().fabt_collector_flush(self.id)
        if code < 0:
            raise OSError(-code, os.strerror(-code))

    def next_source(self) -> None:
        """What comes now is from another input than what came before."""
        code = library().fabt_collector_next_source(self.id)
        if code < 0:
            raise OSError(-code, os.strerror(-code))

    def describe(self) -> dict[str, Any]:
        """Everything but the columns' content (see collector.h)."""
        text = library().fabt_collector_describe(self.id)
        if not text:
            raise MemoryError
        try:
            described: dict[str, Any] = json.loads(ctypes.string_at(text))
        finally:
            library().fabt_free(text)
        return described

    def column(self, event: str, name: str, dtype: Any) -> tuple[Column, Column | None]:
        """A column in memory, without a copy: its values, and the lengths of ragged rows (or None).

        Valid as long as the collector, and until more is collected.
        """
        view = View()
        code = library().fabt_collector_view(
            self.id, event.encode(), name.encode(), ctypes.byref(view)
        )
        if code < 0:
            raise KeyError(f"{event}.{name}")
        assert np.dtype(dtype).itemsize == view.width
        values = _array(view.values, view.elements, dtype)
        lengths = None if not view.lengths else _array(view.lengths, view.rows, np.uint32)
        return values, lengths


def _array(address: int | None, count: int, dtype: Any) -> Column:
    """An array of memory that the library owns."""
    if not address or not count:
        return np.zeros(0, dtype)
    size = count * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    array: Column = np.frombuffer(memory, dtype)
    return array


def _addresses(arrays: Sequence[Column]) -> npt.NDArray[np.uint64]:
    return np.array([array.ctypes.data for array in arrays], np.uint64)


def merge_order(times: Sequence[npt.NDArray[np.int64]]) -> Runs:
    """Where the rows of several inputs come from when they are merged by time.

    Raises ValueError if one of them is not in time order.
    """
    counts = np.array([len(part) for part in times], np.uint64)
    runs = np.empty(int(counts.sum()), RUN)
    addresses = _addresses(times)
    made = library().fabt_merge_order(
        addresses.ctypes.data, counts.ctypes.data, len(times), runs.ctypes.data
    )
    if made < 0:
        raise ValueError(os.strerror(-made))
    return runs[:made]


def gather(inputs: Sequence[Column], runs: Runs) -> Column:
    """The rows of a column in the order of the runs."""
    output = np.empty(int(runs["count"].sum(dtype=np.int64)), inputs[0].dtype)
    addresses = _addresses(inputs)
    library().fabt_merge_gather(
        addresses.ctypes.data,
        output.dtype.itemsize,
        runs.ctypes.data,
        len(runs),
        output.ctypes.data,
    )
    return output


def digest(data: Any, seed: int) -> int:
    """A 64-bit digest of an array's bytes; `seed` is that of what came before."""
    array = np.frombuffer(data, np.uint8)
    return int(library().fabt_digest(array.ctypes.data, array.size, seed))
