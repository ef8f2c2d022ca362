# SPDX-License-Identifier: GPL-2.0-only
"""The smallest handler of a user backstore (tcmu): a disk in memory. handler.py /dev/uioN SIZE_BYTES

The ring is described in the kernel's include/uapi/linux/target_core_user.h.
"""

import mmap
import os
import struct
import sys
from pathlib import Path

BLOCK_BYTES = 512
CMDR_OFF, CMDR_SIZE, HEAD, TAIL = 4, 8, 12, 64  # in the mailbox
COMMAND, LENGTH_MASK = 1, ~7  # of an entry's first word
UNKNOWN = 1  # flag, for the kernel
FLAGS, RESPONSE, COUNT, CDB, IOVECS, IOVEC_BYTES = 7, 8, 8, 24, 48, 16  # in an entry
CHECK_CONDITION = 2
INVALID_OPCODE = struct.pack(">BxBxxxxBxxxxB5x", 0x70, 0x05, 10, 0x20)
INQUIRY_DATA = struct.pack(">BxBBBxxB8s16s4s", 0, 6, 2, 31, 2, b"LIO-ORG", b"memory", b"1")
NO_VPD_BUT_THE_LIST = bytes(5)


class Disk:
    def __init__(self, size_bytes: int):
        self.memory = bytearray(size_bytes)

    def execute(self, cdb: bytes, data: bytes) -> bytes | None:
        """What the command reads; None if there is no such command."""
        if cdb[0] in (0x28, 0x2A):  # READ(10), WRITE(10)
            lba, blocks = struct.unpack_from(">IxH", cdb, 2)
        elif cdb[0] in (0x88, 0x8A):  # READ(16), WRITE(16)
            lba, blocks = struct.unpack_from(">QI", cdb, 2)
        last = len(self.memory) // BLOCK_BYTES - 1
        match cdb[0]:
            case 0x28 | 0x88:
                return bytes(self.memory[lba * BLOCK_BYTES : (lba + blocks) * BLOCK_BYTES])
            case 0x2A | 0x8A:
                self.memory[lba * BLOCK_BYTES : (lba + blocks) * BLOCK_BYTES] = data
                return b""
            case 0x00 | 0x35 | 0x91:  # TEST UNIT READY, SYNCHRONIZE CACHE
                return b""
            case 0x12:
                return NO_VPD_BUT_THE_LIST if cdb[1] & 1 else INQUIRY_DATA
            case 0x1A:  # MODE SENSE(6), no page
                return bytes([3, 0, 0, 0])
            case 0x25:
                return struct.pack(">II", last, BLOCK_BYTES)
            case 0x9E:  # READ CAPACITY(16)
                return struct.pack(">QI20x", last, BLOCK_BYTES)
        return None


class Ring:
    def __init__(self, uio: str):
        self.file = os.open(uio, os.O_RDWR)
        size = int(Path("/sys/class/uio", Path(uio).name, "maps/map0/size").read_text(), 16)
        self.memory = mmap.mmap(self.file, size)
        self.start, self.size = self._word(CMDR_OFF), self._word(CMDR_SIZE)

    def _word(self, offset: int) -> int:
        return struct.unpack_from("=I", self.memory, offset)[0]

    def serve(self, disk: Disk) -> None:
        while True:
            os.read(self.file, 4)
            while (tail := self._word(TAIL)) != self._word(HEAD):
                length = self._entry(self.start + tail, disk)
                struct.pack_into("=I", self.memory, TAIL, (tail + length) % self.size)
            os.write(self.file, bytes(4))

    def _entry(self, at: int, disk: Disk) -> int:
        """Execute what is there; its length."""
        word = self._word(at)
        if word & ~LENGTH_MASK == COMMAND:
            (count,) = struct.unpack_from("=I", self.memory, at + COUNT)
            (cdb_at,) = struct.unpack_from("=Q", self.memory, at + CDB)
            iovecs = [struct.unpack_from("=QQ", self.memory, at + IOVECS + n * IOVEC_BYTES) for n in range(count)]
            data = b"".join(self.memory[base : base + length] for base, length in iovecs)
            read = disk.execute(self.memory[cdb_at : cdb_at + 16], data)
            status, sense = (0, b"") if read is not None else (CHECK_CONDITION, INVALID_OPCODE)
            for base, length in iovecs if read else ():
                piece, read = read[:length], read[length:]
                self.memory[base : base + len(piece)] = piece
            struct.pack_into("=B7x96s", self.memory, at + RESPONSE, status, sense)
        elif word & ~LENGTH_MASK:
            self.memory[at + FLAGS] = UNKNOWN
        return word & LENGTH_MASK


if __name__ == "__main__":
    Ring(sys.argv[1]).serve(Disk(int(sys.argv[2])))
