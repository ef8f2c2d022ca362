# SPDX-License-Identifier: GPL-2.0-only
"""Ask a disk for log page 3Ch again and again: poll.py DISK TIMES_PER_S"""

import ctypes
import fcntl
import os
import struct
import sys
import time

SG_IO = 0x2285
FROM_DEVICE = -3
TIMEOUT_MS = 10_000
CDB = bytes.fromhex("4d 00 7c 00 00 00 00 0400 00")

disk, period_s = os.open(f"/dev/{sys.argv[1]}", os.O_RDONLY), 1 / float(sys.argv[2])
cdb, page, sense = (ctypes.create_string_buffer(size) for size in (len(CDB), 1024, 32))
cdb.raw = CDB
# struct sg_io_hdr
head = struct.pack(
    "=iiBBHIQQQIIi4xQ",
    ord("S"),
    FROM_DEVICE,
    len(CDB),
    len(sense),
    0,
    len(page),
    ctypes.addressof(page),
    ctypes.addressof(cdb),
    ctypes.addressof(sense),
    TIMEOUT_MS,
    0,
    0,
    0,
)
request = bytearray(head.ljust(88, b"\0"))
due = time.monotonic()
while True:
    fcntl.ioctl(disk, SG_IO, request)
    if page.raw[8:16] != b"LIO-CWND":
        raise SystemExit("no page 3Ch")
    due += period_s
    time.sleep(max(0.0, due - time.monotonic()))
