# SPDX-License-Identifier: GPL-2.0-only
"""A competing flow: its sender, cross.py FLOW.json, and its receiver."""

import contextlib
import json
import socket
import sys
import threading
import time

from net import INITIATOR

DATAGRAM_BYTES = 1472
CHUNK_BYTES = 64 * 1024
# Neither end wakes for every datagram: that would be most of a fast run's wall time.
EARLY_S, LATE_S = 0.001, 0.005
SO_RCVBUFFORCE, DATAGRAMS_BUFFER_BYTES = 33, 32 << 20


class Receiver(threading.Thread):
    """Counts what arrives of a flow."""

    def __init__(self, flow: dict):
        super().__init__(daemon=True)
        self.received_bytes = 0
        self._udp = flow["proto"] == "udp"
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if self._udp else socket.SOCK_STREAM)
        self._socket.bind(("", flow["port"]))
        if self._udp:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, DATAGRAMS_BUFFER_BYTES)
        else:
            self._socket.listen()
        self.start()

    def run(self) -> None:
        if self._udp:
            while True:
                time.sleep(LATE_S)
                with contextlib.suppress(BlockingIOError):  # none is left
                    while True:
                        self.received_bytes += len(self._socket.recv(1 << 16, socket.MSG_DONTWAIT))
        connection = self._socket.accept()[0]
        while arrived := connection.recv(1 << 20):
            self.received_bytes += len(arrived)


def send(flow: dict) -> None:
    time.sleep(flow["from_s"])
    peer = (INITIATOR, flow["port"])
    if flow["proto"] == "udp":
        sender, piece = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), bytes(DATAGRAM_BYTES)
        sender.connect(peer)
    else:
        sender, piece = socket.create_connection(peer), bytes(CHUNK_BYTES)
    rate = flow["rate_mbit"] and flow["rate_mbit"] * 1e6 / 8
    start = due = time.monotonic()
    while due - start < flow["to_s"] - flow["from_s"]:
        sender.send(piece)
        due = due + len(piece) / rate if rate else time.monotonic()
        if (ahead_s := due - time.monotonic()) > EARLY_S:
            time.sleep(ahead_s)


if __name__ == "__main__":
    send(json.loads(sys.argv[1]))
