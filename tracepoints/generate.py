#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make what follows from catalogue.toml: C structures, the LTTng provider, the documentation.

    generate.py events OUT     C header: enumerations, one argument structure an event
    generate.py provider OUT   LTTng-UST tracepoint definitions
    generate.py schema OUT     C tables of events and fields, for readers of traces
    generate.py doc OUT        doc/events.md

OUT is written only when its content changes, so that builds stay incremental.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CATALOGUE = HERE / "catalogue.toml"

C_TYPES = {
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "hex64": "uint64_t",
    "i32": "int32_t",
    "i64": "int64_t",
}

# What each log outlet of older engines reported; the key is the outlet, the value its parent.
OUTLETS: dict[str, str] = {
    "err": "all",
    "average": "all",
    "close": "all",
    "signal": "all",
    "noisy_params": "all",
    "params": "noisy_params",
    "tx_start": "all",
    "session_loop": "all",
    "write": "all",
    "rxctl": "all",
    "txctl": "all",
    "protocol": "all",
    "proto_vector": "protocol",
    "proto_progress": "protocol",
    "txdefer": "all",
    "memreg": "all",
    "msg": "all",
    "payverify": "all",
    "payload": "all",
    "paybuf": "all",
    "paybuflist": "paybuf",
    "completion": "all",
    "worker_stats": "all",
    "multitx": "all",
    "session": "all",
    "ooo": "all",
    "addr": "all",
    "poll": "all",
    "leak": "all",
}

Catalogue = dict[str, Any]


def load() -> Catalogue:
    """Read the catalogue, add the enumeration of event names, and check that it is consistent."""
    with CATALOGUE.open("rb") as file:
        catalogue = tomllib.load(file)
    names = [event["name"] for event in catalogue["events"]]
    catalogue["enums"]["event"] = {"doc": "an event of this catalogue", "labels": names}
    if len(set(names)) != len(names):
        raise ValueError("catalogue.toml: an event name stands twice")
    for event in catalogue["events"]:
        for name, kind, _ in event["fields"]:
            known = kind in C_TYPES or kind in ("text", "bytes", "list64")
            if not known and kind.removeprefix("enum.") not in catalogue["enums"]:
                raise ValueError(f"catalogue.toml: {event['name']}.{name}: unknown type {kind}")
        for outlet in event["outlets"]:
            if outlet not in OUTLETS:
                raise ValueError(f"catalogue.toml: {event['name']}: unknown outlet {outlet}")
    return catalogue


def c_member(name: str, kind: str) -> Iterator[str]:
    """The members of an argument structure that hold one field."""
    if kind == "text":
        yield f"const char *{name};"
    elif kind == "bytes":
        yield f"const uint8_t *{name};"
        yield f"uint32_t {name}_count;"
    elif kind == "list64":
        yield f"const uint64_t *{name};"
        yield f"uint32_t {name}_count;"
    elif kind.startswith("enum."):
        yield f"uint8_t {name}; /* enum fabt_{kind.removeprefix('enum.')} */"
    else:
        yield f"{C_TYPES[kind]} {name};"


def make_events(catalogue: Catalogue) -> str:
    """C header with the enumerations and one argument structure an event."""
    out = [
        "/* SPDX-License-Identifier: BSD-3-Clause",
        " * Made by generate.py from catalogue.toml: change that. */",
        "#ifndef FABT_EVENTS_H",
        "#define FABT_EVENTS_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define FABT_SCHEMA_VERSION {catalogue['schema_version']}",
        "",
    ]
    for name, enum in catalogue["enums"].items():
        prefix = f"FABT_{name.upper()}_"
        # Event identifiers keep the event's own spelling, so that a macro can paste them.
        labels = [label if name == "event" else label.upper() for label in enum["labels"]]
        out.append(f"/* {enum['doc']} */")
        out.append(f"enum fabt_{name} {{")
        out += [f"    {prefix}{label} = {value}," for value, label in enumerate(labels)]
        out += [f"    {prefix}COUNT", "};", ""]
    for name in ("kind", "state", "phase", "outcome", "workload"):
        strings = ", ".join(f'"{label}"' for label in catalogue["enums"][name]["labels"])
        out.append(f"#define FABT_{name.upper()}_LABELS {{ {strings} }}")
    out += [
        f"#define FABT_EVENT_LABELS {{ {', '.join(event_strings(catalogue))} }}",
        "",
    ]
    for event in catalogue["events"]:
        out.append(f"/* {event['doc']} */")
        out.append(f"struct fabt_ev_{event['name']} {{")
        for name, kind, _ in event["fields"]:
            out += [f"    {member}" for member in c_member(name, kind)]
        out += ["};", ""]
    out += ["#endif", ""]
    return "\n".join(out)


def event_strings(catalogue: Catalogue) -> list[str]:
    """Event names as C string literals."""
    return [f'"{event["name"]}"' for event in catalogue["events"]]


def lttng_field(name: str, kind: str, arg: str) -> str:
    """One LTTng-UST field definition."""
    if kind == "text":
        return f"lttng_ust_field_string({name}, {arg})"
    if kind == "bytes":
        return f"lttng_ust_field_sequence(uint8_t, {name}, {arg}, uint32_t, {arg}_count)"
    if kind == "list64":
        return f"lttng_ust_field_sequence(uint64_t, {name}, {arg}, uint32_t, {arg}_count)"
    if kind == "hex64":
        return f"lttng_ust_field_integer_hex(uint64_t, {name}, {arg})"
    if kind.startswith("enum."):
        return (
            f"lttng_ust_field_enum(fabt, fabt_{kind.removeprefix('enum.')}, uint8_t, {name}, {arg})"
        )
    return f"lttng_ust_field_integer({C_TYPES[kind]}, {name}, {arg})"


# LTTng's macros write field by field, each by a call through a pointer. Where its buffers are not
# aligned (x86, aarch64), fields without a variable length are put together on the stack and written
# at once: the same bytes, for a third less time. `lttng_ust__get_dynamic_len` is defined only while
# the functions are made that write events; without it, or with alignment, the macros are left alone.
PACKING = """\
/* Write an event's fields at once; see generate.py. */
#if defined(lttng_ust__get_dynamic_len) && !defined(LTTNG_UST_RING_BUFFER_NATURAL_ALIGN)
#undef lttng_ust__field_unused
#define lttng_ust__field_unused(_src) FABT_PACK_##_src
#undef FABT_PACK_writer
#define FABT_PACK_writer unsigned char fabt_bytes[FABT_PACKED_MAX], *fabt_at = fabt_bytes;
#undef FABT_PACK_seq
#define FABT_PACK_seq \\
    __chan->ops->event_write(&__ctx, fabt_bytes, (size_t)(fabt_at - fabt_bytes), 1);
#undef lttng_ust__field_integer_ext
#define lttng_ust__field_integer_ext(_type, _item, _src, ...) \\
    {                                                         \\
        const _type fabt_value = (_type)(_src);               \\
        memcpy(fabt_at, &fabt_value, sizeof(fabt_value));     \\
        fabt_at += sizeof(fabt_value);                        \\
    }
#endif
"""

C_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "hex64": 8, "i32": 4, "i64": 8}


def packed_size(catalogue: Catalogue, event: dict[str, Any]) -> int | None:
    """Bytes of an event, or None if they vary."""
    kinds = [kind for _, kind, _ in catalogue["common"]["fields"] + event["fields"]]
    if {"text", "bytes", "list64"} & set(kinds):
        return None
    return sum(C_SIZES.get(kind, 1) for kind in kinds)


def lttng_event(catalogue: Catalogue, event: dict[str, Any], packed: bool) -> Iterator[str]:
    """LTTng's definition of an event. What is packed begins and ends with a field that only the
    packing sees."""
    name = event["name"]
    yield f"LTTNG_UST_TRACEPOINT_EVENT(fabt, {name},"
    yield (
        "    LTTNG_UST_TP_ARGS(uint32_t, writer, uint64_t, seq, "
        f"const struct fabt_ev_{name} *, e),"
    )
    yield "    LTTNG_UST_TP_FIELDS("
    if packed:
        yield "        lttng_ust_field_unused(writer)"
    for field, kind, _ in catalogue["common"]["fields"]:
        yield f"        {lttng_field(field, kind, field)}"
    for field, kind, _ in event["fields"]:
        yield f"        {lttng_field(field, kind, f'e->{field}')}"
    if packed:
        yield "        lttng_ust_field_unused(seq)"
    yield "    ))"
    level = f"LTTNG_UST_TRACEPOINT_LOGLEVEL_{event['level']}"
    yield f"LTTNG_UST_TRACEPOINT_LOGLEVEL(fabt, {name}, {level})"
    yield ""


def make_provider(catalogue: Catalogue) -> str:
    """LTTng-UST tracepoint definitions."""
    sizes = {event["name"]: packed_size(catalogue, event) for event in catalogue["events"]}
    out = [
        "/* SPDX-License-Identifier: BSD-3-Clause",
        " * Made by generate.py from catalogue.toml: change that. */",
        "#undef LTTNG_UST_TRACEPOINT_PROVIDER",
        "#define LTTNG_UST_TRACEPOINT_PROVIDER fabt",
        "#undef LTTNG_UST_TRACEPOINT_INCLUDE",
        '#define LTTNG_UST_TRACEPOINT_INCLUDE "fabt_tp.h"',
        "#if !defined(FABT_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)",
        "#define FABT_TP_H",
        "#include <lttng/tracepoint.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        '#include "fabt_events.h"',
        f"#define FABT_PACKED_MAX {max(size or 0 for size in sizes.values())}",
        "",
    ]
    used = {
        kind.removeprefix("enum.")
        for event in catalogue["events"]
        for _, kind, _ in event["fields"]
        if kind.startswith("enum.")
    }
    for name, enum in catalogue["enums"].items():
        if name not in used:
            continue
        out.append(f"LTTNG_UST_TRACEPOINT_ENUM(fabt, fabt_{name}, LTTNG_UST_TP_ENUM_VALUES(")
        out += [
            f'    lttng_ust_field_enum_value("{label}", {value})'
            for value, label in enumerate(enum["labels"])
        ]
        out += ["))", ""]
    for event in catalogue["events"]:
        if sizes[event["name"]] is None:
            out += lttng_event(catalogue, event, packed=False)
    out.append(PACKING)
    for event in catalogue["events"]:
        if sizes[event["name"]] is not None:
            out += lttng_event(catalogue, event, packed=True)
    out += ["#endif", "#include <lttng/tracepoint-event.h>", ""]
    return "\n".join(out)


def make_schema(catalogue: Catalogue) -> str:
    """Tables of events and their fields, to be included by analysis/native/schema.c."""
    out = [
        "/* SPDX-License-Identifier: BSD-3-Clause",
        " * Made by generate.py from catalogue.toml: change that. */",
        "",
    ]
    for event in catalogue["events"]:
        out.append(f"static const struct schema_field {event['name']}_fields[] = {{")
        for name, kind, _ in catalogue["common"]["fields"] + event["fields"]:
            out.append(f'    {{"{name}", "{kind}", SCHEMA_{kind.partition(".")[0].upper()}}},')
        out += ["};", ""]
    out.append("static const struct schema_event schema_events[] = {")
    for event in catalogue["events"]:
        count = len(catalogue["common"]["fields"] + event["fields"])
        out.append(f'    {{"{event["name"]}", {event["name"]}_fields, {count}}},')
    out += ["};", ""]
    return "\n".join(out)


LEVEL_ORDER = [
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
]


def recorder_level(catalogue: Catalogue, level: str) -> str:
    """The cheapest recorder level that includes events of an LTTng log level."""
    rank = LEVEL_ORDER.index(level)
    levels: dict[str, str] = catalogue["levels"]
    return next(name for name, top in levels.items() if rank <= LEVEL_ORDER.index(top))


def answers(catalogue: Catalogue, outlet: str) -> str:
    """The events that answer an outlet, as text for the documentation."""
    events = [f"`{e['name']}`" for e in catalogue["events"] if outlet in e["outlets"]]
    children = [child for child, parent in OUTLETS.items() if parent == outlet]
    if events:
        return ", ".join(events)
    return "the events of " + ", ".join(f"`{child}`" for child in children)


def make_doc(catalogue: Catalogue) -> str:
    """The catalogue as a document."""
    out = [
        "<!-- SPDX-License-Identifier: BSD-3-Clause -->",
        "<!-- Made by tracepoints/generate.py from catalogue.toml: change that. -->",
        "# The events of provider `fabt`",
        "",
        f"Schema version {catalogue['schema_version']}. Every event starts with these two fields:",
        "",
        "| field | type | meaning |",
        "|---|---|---|",
    ]
    out += [f"| `{n}` | {t} | {d} |" for n, t, d in catalogue["common"]["fields"]]
    out += [
        "",
        "An event's number is counted by writer *and by event name*, so any subset of the events can",
        "be recorded, by any number of trace sessions at once, and a gap still means a loss and nothing",
        "else. At a writer's end one `emitted` event a name says how many there should be.",
        "",
        "`hex64` is an unsigned 64-bit integer shown in hex, `bytes` and `list64` are sequences of 8- and",
        "64-bit unsigned integers, `enum.X` is an 8-bit enumeration (below).",
        "",
        "## What to record",
        "",
        "`fabtrace record --level` takes these; the levels are LTTng log levels, so `lttng enable-event",
        "--userspace 'fabt:*' --loglevel=LEVEL` does the same.",
        "",
        "| `--level` | log levels | events |",
        "|---|---|---|",
    ]
    for name, top in catalogue["levels"].items():
        events = [
            f"`{e['name']}`"
            for e in catalogue["events"]
            if recorder_level(catalogue, e["level"]) == name
        ]
        more = "" if name == "light" else "those above and "
        out.append(f"| `{name}` | up to {top} | {more}{', '.join(events)} |")
    out += [
        "",
        "## From log outlets to events",
        "",
        "Engines of this kind log through named outlets. Each is answered by:",
        "",
        "| outlet | events |",
        "|---|---|",
        "| `all` | all events |",
    ]
    for outlet, parent in OUTLETS.items():
        indent = "" if parent == "all" else "&nbsp; "
        out.append(f"| {indent}`{outlet}` | {answers(catalogue, outlet)} |")
    out += ["", "## Events", ""]
    for event in catalogue["events"]:
        level = recorder_level(catalogue, event["level"])
        out += [
            f"### `fabt:{event['name']}`",
            "",
            f"{event['doc']} Log level {event['level']} (`{level}`).",
            "",
            "| field | type | meaning |",
            "|---|---|---|",
        ]
        for name, kind, doc in event["fields"]:
            meaning = doc
            if not meaning and kind.startswith("enum."):
                meaning = catalogue["enums"][kind.removeprefix("enum.")]["doc"]
            out.append(f"| `{name}` | {kind} | {meaning} |")
        out.append("")
    out += ["## Enumerations", "", "| enumeration | meaning | labels, from 0 |", "|---|---|---|"]
    for name, enum in catalogue["enums"].items():
        labels = (
            "the event names, in the order of this document"
            if name == "event"
            else ", ".join(f"`{label}`" for label in enum["labels"])
        )
        out.append(f"| `{name}` | {enum['doc']} | {labels} |")
    out.append("")
    return "\n".join(out)


MAKERS: dict[str, Callable[[Catalogue], str]] = {
    "events": make_events,
    "provider": make_provider,
    "schema": make_schema,
    "doc": make_doc,
}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in MAKERS:
        print(__doc__, file=sys.stderr)
        return 2
    text = MAKERS[arguments[0]](load())
    target = Path(arguments[1])
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
