# SPDX-License-Identifier: BSD-3-Clause
"""Messages seen at both ends: get's vectors and put's progress messages, by their number in tag order.

Messages are sent out of order on purpose, so neither the time nor the order of their posts says which
receive is whose. But a receive waits for one tag, and the n-th receive in tag order gets message n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fabtrace.model.flow import of_kinds
from fabtrace.model.operations import Operations

# Kind of the send and of the receive.
DIRECTIONS = {"vector": ("vector_tx", "vector_rx"), "progress": ("progress_tx", "progress_rx")}

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Messages:
    """Messages of one direction of a session.

    sent_ns      when the posting call began, as far as one can tell: if a thread loses its processor
                 between the call and the event, the event is late and the call seems to be, too
    before_ns    a time that was surely before the call: that of the session's event before it
    received_ns  when the receive's completion was read; late at worst
    """

    sent_ns: Times
    before_ns: Times
    received_ns: Times

    def __len__(self) -> int:
        return len(self.sent_ns)

    @property
    def delays_ns(self) -> Times:
        """How long each message took; one that seems received before it was sent was sent earlier."""
        late = self.received_ns < self.sent_ns
        delays: Times = self.received_ns - np.where(late, self.before_ns, self.sent_ns)
        return delays


def join_messages(sender: Operations, receiver: Operations, kind: str) -> Messages:
    """The messages of one kind between two ends, given by their operations, in order of number."""
    transmit, receive = DIRECTIONS[kind]
    sends = of_kinds(sender, transmit)
    sends = sends.rows(np.flatnonzero(sends.posted))
    receipts = of_kinds(receiver, receive)
    receipts = receipts.rows(np.flatnonzero(receipts.succeeded))
    _, sent, received = np.intersect1d(sends.position, receipts.position, return_indices=True)
    sends = sends.rows(sent)
    begin = sends.begin_ns
    before = event_before(sender, begin + sends.call_ns)
    # Without an event before it nothing is sure; a whole second is more than any preemption.
    unsure = before < 0
    before[unsure] = begin[unsure] - 1_000_000_000
    return Messages(begin, np.minimum(before, begin), receipts.end_ns[received])


def event_before(operations: Operations, times_ns: Times) -> Times:
    """The last event of a session's operations before some times; -1 where there is none."""
    posted = operations.rows(np.flatnonzero(operations.posted))
    ended = operations.rows(np.flatnonzero(operations.ended))
    moments = np.sort(np.concatenate([posted.begin_ns + posted.call_ns, ended.end_ns]))
    place = np.searchsorted(moments, times_ns, side="left") - 1
    return np.where(place >= 0, moments[np.maximum(place, 0)], -1)
