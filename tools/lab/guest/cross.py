# SPDX-License-Identifier: GPL-2.0-only
"""A competing flow: cross.py FLOW.json sends, cross.py PORT receives (both protocols)."""

import json
import socket
import sys
import threading
import time

from net import INITIATOR

DATAGRAM_BYTES = 1472
CHUNK_BYTES = 64 * 1024


def receive(port: int) -> None:
    def swallow(connection: socket.socket) -> None:
        while connection.recv(1 << 20):
            pass

    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("", port))
    threading.Thread(target=swallow, args=(datagrams,), daemon=True).start()
    listener = socket.create_server(("", port))
    while True:
        swallow(listener.accept()[0])


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
        time.sleep(max(0.0, due - time.monotonic()))


if sys.argv[1].isdigit():
    receive(int(sys.argv[1]))
else:
    send(json.loads(sys.argv[1]))
