# SPDX-License-Identifier: BSD-3-Clause
"""The file `metadata` of a CTF trace: its text, and whether all of it is there."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from fabtrace.errors import FabtraceError

METADATA_MAGIC = 0x75D11D57
RECORD_SEPARATOR = b"\x1e"  # opens each fragment of CTF 2's JSON metadata
# Packet header: magic, uuid, checksum, content and packet size in bits, compression, encryption,
# checksum scheme, major, minor.
METADATA_HEADER = struct.Struct("<I16sIIIBBBBB")
STREAM_FIELDS = (
    "magic uuid stream_id stream_instance_id timestamp_begin timestamp_end content_size packet_size"
    " packet_seq_num events_discarded cpu_id"
).split()
COPY_AGAIN = "copy or record the trace again"
COMMENTS_AND_STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)


def read_bytes(path: Path) -> bytes:
    """A file's content."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FabtraceError(f"{path}: {error.strerror}") from None


def read_metadata(path: Path) -> str:
    """The TSDL text of a metadata file; FabtraceError unless all of it is there."""
    text, trouble = examine_metadata(path)
    if trouble:
        raise FabtraceError(f"{path} {trouble}")
    return text


def examine_metadata(path: Path, ctf2: bool = False) -> tuple[str, str]:
    """The TSDL text of a metadata file (empty for CTF 2), and what is wrong with it (without its name).

    If only its end is missing, the text stops after the last whole declaration. FabtraceError if what is
    there is of no use.
    """
    content = read_bytes(path)
    if not content:
        raise FabtraceError(
            f"{path} is empty: the consumer daemon did not get to write it, "
            f"so the trace cannot be read; record again"
        )
    trouble = ""
    if len(content) >= 4 and struct.unpack_from("<I", content)[0] == METADATA_MAGIC:
        content, trouble = unpack_metadata(content)
    if content.startswith(RECORD_SEPARATOR):
        if not ctf2:
            raise FabtraceError(
                f"{path} is CTF 2, which needs Babeltrace 2.1 or newer; install that, or record "
                f"with `lttng create --trace-format=ctf-1.8`"
            )
        return "", trouble
    if not trouble and not content.lstrip().startswith(b"/* CTF 1"):
        raise FabtraceError(f"{path} is no CTF metadata: it neither has packets nor `/* CTF 1.8`")
    text = content.decode("utf-8", errors="replace").rstrip("\0 \t\r\n")
    return whole_declarations(path, text, trouble)


def unpack_metadata(content: bytes) -> tuple[bytes, str]:
    """The text in a packetised metadata file, up to what is wrong with it."""
    text = bytearray()
    offset = 0
    while offset < len(content):
        if offset + METADATA_HEADER.size > len(content):
            return bytes(text), _cut(offset)
        magic, _, _, content_bits, packet_bits, *_ = METADATA_HEADER.unpack_from(content, offset)
        if magic != METADATA_MAGIC:
            return bytes(text), f"is damaged at byte {offset}: no packet; {COPY_AGAIN}"
        used, size = content_bits // 8, packet_bits // 8
        if not METADATA_HEADER.size <= used <= size:
            return bytes(text), f"is damaged at byte {offset}: packet size; {COPY_AGAIN}"
        if offset + size > len(content):
            # What is there of the packet may still be of use.
            text += content[offset + METADATA_HEADER.size : min(offset + used, len(content))]
            return bytes(text), _cut(offset)
        text += content[offset + METADATA_HEADER.size : offset + used]
        offset += size
    return bytes(text), ""


def whole_declarations(path: Path, text: str, trouble: str) -> tuple[str, str]:
    """The text if it is whole; else what comes before its end was lost, if that is of use.

    Metadata that stops in the middle makes Babeltrace loop, so it must never see it.
    """
    bare = COMMENTS_AND_STRINGS.sub(lambda found: " " * len(found[0]), text)
    end = end_of_declarations(bare)
    if not trouble and end < len(bare.rstrip()):
        trouble = f"is truncated: its text stops in the middle; {COPY_AGAIN}"
    bare, text = bare[:end], text[:end]
    blocks = {name for name in ("trace", "stream", "event") if re.search(rf"\b{name}\s*{{", bare)}
    if trouble and not {"trace", "stream", "event"} <= blocks:
        raise FabtraceError(f"{path} {trouble}")
    if "trace" not in blocks:
        raise FabtraceError(f"{path} is truncated: it declares no trace; {COPY_AGAIN}")
    if "stream" not in blocks:
        raise FabtraceError(
            f"{path} declares no stream: the trace was cut off before any event came; record again"
        )
    return text, trouble


def end_of_declarations(bare: str) -> int:
    """Where the last whole declaration ends, in a text without comments and strings."""
    depth = end = 0
    for found in re.finditer(r'[{};"]|/\*', bare):
        mark = found[0]
        if mark in ('"', "/*"):
            break  # of a string or comment that does not end
        depth += {"{": 1, "}": -1}.get(mark, 0)
        if depth < 0:
            break
        if mark == ";" and depth == 0:
            end = found.end()
    return end


def metadata_uuid(text: str) -> bytes | None:
    """The trace's UUID, which each packet repeats."""
    found = re.search(r'\btrace\s*{[^{}]*?\buuid\s*=\s*"([0-9a-fA-F-]{36})"', text)
    digits = found[1].replace("-", "") if found else ""
    return bytes.fromhex(digits) if len(digits) == 32 else None


def stream_ids(text: str) -> frozenset[int]:
    """The numbers of the stream classes that are declared; one without a number has 0."""
    heads = re.findall(r"\bstream\s*{([^{}]*)", text)
    found = (re.search(r"\bid\s*=\s*(\d+)", head) for head in heads)
    return frozenset(int(item[1]) if item else 0 for item in found)


def declared_events(text: str) -> frozenset[str]:
    """The names of the provider's events that the trace could hold, without `fabt:`."""
    return frozenset(re.findall(r'\bevent\s*\{\s*name\s*=\s*"fabt:(\w+)"', text))


def laid_out_as_lttng_does(text: str) -> bool:
    """Whether packets have LTTng's header (other tracers may choose other layouts)."""
    header = re.search(r"packet\.header\s*:=\s*struct\s*{(.*?)}", text, re.DOTALL)
    context = re.search(r"struct packet_context\s*{(.*?)}", text, re.DOTALL)
    if header is None or context is None or "byte_order = le" not in text:
        return False
    names = re.findall(r"(\w+)(?:\[\d+\])?;", header[1] + context[1])
    return names[: len(STREAM_FIELDS)] == STREAM_FIELDS


def _cut(offset: int) -> str:
    return f"is truncated in the packet at byte {offset}; {COPY_AGAIN}"
