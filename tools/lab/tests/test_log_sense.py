# SPDX-License-Identifier: GPL-2.0-only
"""LOG SENSE over the wire against SPC-6, 6.9 and 7.3, and a session of two connections.

What page 3Ch has within is docs/log-page.md; KUnit has tests of the same on pages of its own.
"""

import pytest

from cwndlab import boot, images
from cwndlab.engine import choose
from cwndlab.scenario import load
from cwndlab.variant import plan

pytestmark = pytest.mark.guest

SETTINGS = ("workload.kind=verify", "workload.size_mb=16", "target.backstore=ramdisk")
TIMEOUT_S = 600
SESSION_BYTES, CONNECTION_BYTES = 4 + 32, 4 + 172
PAGE_BYTES = 4 + SESSION_BYTES + CONNECTION_BYTES  # of a session of one connection
ALLOCATIONS = (0, 1, 2, 3, 4, 7, 8, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 4096, 0xFFFF)
GOOD, CHECK_CONDITION = 0x00, 0x02
ILLEGAL_REQUEST = 0x05
INVALID_OPCODE, INVALID_FIELD_IN_CDB, NO_SUCH_UNIT = 0x2000, 0x2400, 0x2500


def log_sense(*, code=0x3C, pc=1, subpage=0, pointer=0, allocation=0xFFFF, byte1=0, byte4=0):
    cdb = [0x4D, byte1, pc << 6 | code, subpage, byte4, *pointer.to_bytes(2), *allocation.to_bytes(2), 0]
    return bytes(cdb), allocation, 0


REFUSED = {
    "SP": log_sense(byte1=0x01),
    "PPC, obsolete": log_sense(byte1=0x02),
    **{f"reserved bit {bit} of byte 1": log_sense(byte1=1 << bit) for bit in range(2, 8)},
    "default threshold values": log_sense(pc=2),
    "default cumulative values": log_sense(pc=3),
    "subpage 01h": log_sense(subpage=0x01),
    "all subpages of the page": log_sense(subpage=0xFF),
    "subpage 01h of the list": log_sense(code=0x00, subpage=0x01),
    "parameter pointer beyond the last": log_sense(pointer=2),
    "largest parameter pointer": log_sense(pointer=0xFFFF),
    "parameter pointer into the list": log_sense(code=0x00, pointer=1),
}
COMMANDS = {
    **REFUSED,
    "page": log_sense(),
    "threshold values": log_sense(pc=0),
    "reserved byte 4": log_sense(byte4=0xFF),
    "second parameter": log_sense(pointer=1),
    "second parameter, truncated": log_sense(pointer=1, allocation=6),
    "list": log_sense(code=0x00),
    "list with subpages": log_sense(code=0x00, subpage=0xFF),
    **{f"PC {pc} of the list": log_sense(code=0x00, pc=pc) for pc in range(4)},
    **{f"code {code:02X}h": log_sense(code=code) for code in range(0x40)},
    **{f"allocation length {n}": log_sense(allocation=n) for n in ALLOCATIONS},
    "more allocated than expected": (log_sense()[0], 10, 0),
    "more expected than allocated": (log_sense(allocation=10)[0], 4096, 0),
    "no such unit": (log_sense()[0], 0xFFFF, 5),
    "LOG SELECT without parameters": (bytes([0x4C, 0, 0x40, 0, 0, 0, 0, 0, 0, 0]), 0, 0),
}


@pytest.fixture(scope="module")
def found():
    commands = {name: (cdb.hex(), *rest) for name, (cdb, *rest) in COMMANDS.items()}
    todo = plan(load("verify", SETTINGS), "stock", monitor=False) | {"task": "sense", "commands": commands}
    made = images.build(print, choose("uml"))
    return boot.run(made, todo, 0, TIMEOUT_S, lambda done: None, keep=False)


@pytest.fixture(scope="module")
def answers(found):
    """Status, data, sense data and residual of each command."""
    return {
        name: (
            answer["status"],
            bytes.fromhex(answer["data"]),
            bytes.fromhex(answer["sense"]),
            answer["residual_bytes"],
        )
        for name, answer in found["answers"].items()
    }


def parameters(page):
    """The page's parameters by code, every length checked."""
    assert len(page) == 4 + int.from_bytes(page[2:4])
    rest, values = page[4:], {}
    while rest:
        code, control, length = int.from_bytes(rest[:2]), rest[2], rest[3]
        assert control == 0x03  # a binary list, never saved
        assert len(rest) >= 4 + length
        values[code], rest = rest[4 : 4 + length], rest[4 + length :]
    assert list(values) == sorted(values)
    return values


def assert_refused(answer, why):
    status, data, sense, _ = answer
    assert (status, data) == (CHECK_CONDITION, b"")
    assert sense[0] & 0x7F == 0x70  # fixed format, this command's
    assert sense[2] & 0x0F == ILLEGAL_REQUEST
    assert len(sense) >= 8 + sense[7] >= 14
    assert int.from_bytes(sense[12:14]) == why


def test_the_page_and_its_parameters(answers):
    status, page, _, residual_bytes = answers["page"]
    assert (status, page[:2]) == (GOOD, bytes([0xBC, 0x00]))  # DS, not SPF, 3Ch; no subpage
    values = parameters(page)
    assert [len(value) for value in values.values()] == [32, 172]
    assert list(values) == [0, 1]
    assert values[0][:8] == b"LIO-CWND"
    assert residual_bytes == 0xFFFF - PAGE_BYTES


@pytest.mark.parametrize("name", ["threshold values", "reserved byte 4"])
def test_what_is_not_looked_at(answers, name):
    status, page, _, _ = answers[name]
    assert (status, len(page), page[:4]) == (GOOD, PAGE_BYTES, answers["page"][1][:4])


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_fields_are_refused(answers, name):
    assert_refused(answers[name], INVALID_FIELD_IN_CDB)


def test_the_parameter_pointer_leaves_out_what_is_below(answers):
    _, page, _, _ = answers["second parameter"]
    assert list(parameters(page)) == [1]
    _, start, _, residual_bytes = answers["second parameter, truncated"]
    assert start == page[:6]  # the page length is that of the whole
    assert residual_bytes == 0


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_truncation_changes_nothing_but_the_end(answers, allocation):
    status, start, sense, residual_bytes = answers[f"allocation length {allocation}"]
    assert (status, sense) == (GOOD, b"")
    assert len(start) == min(allocation, PAGE_BYTES)
    assert start[:4] == answers["page"][1][: min(allocation, 4)]
    assert residual_bytes == allocation - len(start)


def test_the_initiator_may_expect_another_length(answers):
    status, start, _, residual_bytes = answers["more allocated than expected"]
    assert (status, len(start)) == (GOOD, 10)
    assert residual_bytes < 0
    status, start, _, residual_bytes = answers["more expected than allocated"]
    assert (status, len(start), residual_bytes) == (GOOD, 10, 4096 - 10)


def test_the_lists_of_pages(answers):
    assert answers["list"][1] == bytes([0x00, 0x00, 0, 2, 0x00, 0x3C])
    subpages = bytes([0x40, 0xFF, 0, 6, 0x00, 0x00, 0x00, 0xFF, 0x3C, 0x00])
    assert answers["list with subpages"][1] == subpages
    assert all(answers[f"PC {pc} of the list"][1] == answers["list"][1] for pc in range(4))


@pytest.mark.parametrize("code", range(0x40))
def test_what_is_listed_answers_and_nothing_else(answers, code):
    answer = answers[f"code {code:02X}h"]
    if code in answers["list"][1][4:]:
        assert answer[0] == GOOD
    else:
        assert_refused(answer, INVALID_FIELD_IN_CDB)


def test_other_commands(answers):
    assert_refused(answers["no such unit"], NO_SUCH_UNIT)
    assert_refused(answers["LOG SELECT without parameters"], INVALID_OPCODE)


def test_both_connections_of_a_session_are_told_of(found):
    both = found["two_connections"]
    for page in (both["page"], both["page_by_second"]):
        values = parameters(bytes.fromhex(page))
        assert list(values) == [0, 1, 2]
        assert int.from_bytes(values[0][10:12]) == 2
        assert [int.from_bytes(values[n][:2]) for n in (1, 2)] == [0, 1]  # CIDs
        assert all(values[n][2] & 1 for n in (1, 2))  # by TCP
    tsih = int.from_bytes(values[0][12:14])
    assert sorted((record["tsih"], record["cid"]) for record in both["netlink"]) == [(tsih, 0), (tsih, 1)]
    assert len({record["peer_addr"] for record in both["netlink"]}) == 2


def test_a_connection_that_has_logged_out_is_gone(found):
    left = found["one_left"]
    values = parameters(bytes.fromhex(left["page"]))
    assert (list(values), int.from_bytes(values[0][10:12])) == ([0, 1], 1)
    assert [record["cid"] for record in left["netlink"]] == [0]
