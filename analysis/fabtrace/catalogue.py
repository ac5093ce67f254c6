# SPDX-License-Identifier: BSD-3-Clause
"""What events there are: names, fields, enumerations and levels, read from catalogue.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PROVIDER_PREFIX = "fabt:"

# Installed next to the package's modules; in the source tree in ../../tracepoints.
PLACES = (
    Path(__file__).resolve().parent / "catalogue.toml",
    Path(__file__).resolve().parents[2] / "tracepoints" / "catalogue.toml",
)

# LTTng's log levels, the most important first.
LOG_LEVELS = (
    "EMERG",
    "ALERT",
    "CRIT",
    "ERR",
    "WARNING",
    "NOTICE",
    "INFO",
    "DEBUG_SYSTEM",
    "DEBUG_PROGRAM",
    "DEBUG_PROCESS",
    "DEBUG_MODULE",
    "DEBUG_UNIT",
    "DEBUG_FUNCTION",
    "DEBUG_LINE",
    "DEBUG",
)


@dataclass(frozen=True)
class Field:
    """A field of an event: its name and its type as catalogue.toml spells it."""

    name: str
    kind: str

    @property
    def enum(self) -> str | None:
        """The enumeration whose codes the field holds, if it is one."""
        prefix, _, name = self.kind.partition(".")
        return name if prefix == "enum" else None


@dataclass(frozen=True)
class Event:
    """An event with all its fields, the common ones first."""

    name: str
    level: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Catalogue:
    """The whole catalogue. `enums` maps an enumeration to its labels in order of their codes."""

    schema_version: int
    levels: dict[str, str]
    events: dict[str, Event]
    enums: dict[str, tuple[str, ...]]

    def label(self, enum: str, code: int) -> str:
        """The label of a code; a code that this version doesn't know shows as its number."""
        labels = self.enums[enum]
        return labels[code] if 0 <= code < len(labels) else f"{enum}-{code}"

    def code(self, enum: str, label: str) -> int:
        """The code of a label."""
        return self.enums[enum].index(label)

    def recorder_level(self, event: str) -> str:
        """The cheapest level of the recorder that records an event."""
        rank = LOG_LEVELS.index(self.events[event].level)
        return next(name for name, top in self.levels.items() if rank <= LOG_LEVELS.index(top))


def parse(document: dict[str, Any]) -> Catalogue:
    """The catalogue from catalogue.toml's content."""
    common = document["common"]["fields"]
    events = {
        event["name"]: Event(
            name=event["name"],
            level=event["level"],
            fields=tuple(Field(name, kind) for name, kind, _ in common + event["fields"]),
        )
        for event in document["events"]
    }
    enums = {name: tuple(enum["labels"]) for name, enum in document["enums"].items()}
    # Events name each other by their place in the catalogue (`emitted`).
    enums["event"] = tuple(events)
    return Catalogue(document["schema_version"], dict(document["levels"]), events, enums)


@cache
def load() -> Catalogue:
    """The catalogue that belongs to this version of fabtrace."""
    path = next((place for place in PLACES if place.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"the installation is incomplete: no {PLACES[0]}")
    with path.open("rb") as file:
        return parse(tomllib.load(file))
