# SPDX-License-Identifier: GPL-2.0-only
import struct
import sys

import pytest

from cwndlab import images, stress
from cwndlab.engine import choose
from cwndlab.paths import GUEST_SCRIPTS

sys.path.insert(0, str(GUEST_SCRIPTS))

import family
import fuzz
from iscsi import Answer

TSIH = 7
PAGE_BYTES = 4 + 36 + 176
REST = 0xFFFF - PAGE_BYTES


def page(tsih=TSIH):
    """A page as the target would make it."""
    return bytes(byte or 0 for byte in fuzz.expected_page(fuzz.log_sense(), tsih, 1))


def good(data, residual=0):
    return Answer(fuzz.GOOD, data, b"", residual)


def refusal():
    return Answer(fuzz.CHECK_CONDITION, b"", bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0]), 0)


def test_a_page_is_as_long_as_its_description():
    assert len(page()) == PAGE_BYTES
    assert int.from_bytes(page()[2:4]) == PAGE_BYTES - 4


@pytest.mark.parametrize("wanted", [0, 3, 216, 65535])
def test_a_right_answer_passes(wanted):
    cdb = fuzz.log_sense(asked_bytes=wanted)
    data = page()[:wanted]
    assert fuzz.check_page(cdb, wanted, good(data, wanted - len(data)), TSIH)


@pytest.mark.parametrize(
    "answer",
    [good(page() + b"\0", REST - 1), good(page(TSIH + 1), REST), good(page()[:-1], REST + 1), refusal()],
    ids=["a byte too many", "another session's", "a byte too few", "refused"],
)
def test_a_wrong_answer_is_found(answer):
    with pytest.raises(RuntimeError, match="LOG SENSE"):
        fuzz.check_page(fuzz.log_sense(), 0xFFFF, answer, TSIH)


@pytest.mark.parametrize(
    "command", [{"page": 0x3D}, {"subpage": 1}, {"pointer": 2}, {"byte_1": 1}, {"page": 0x80 | 0x3C}]
)
def test_what_must_be_refused(command):
    cdb = fuzz.log_sense(**command)
    assert not fuzz.check_page(cdb, 0xFFFF, refusal(), TSIH)
    with pytest.raises(RuntimeError, match="not refused"):
        fuzz.check_page(cdb, 0xFFFF, good(page()), TSIH)


def test_a_target_without_memory_is_told_apart():
    with pytest.raises(OSError, match="memory"):
        fuzz.check_page(fuzz.log_sense(), 0xFFFF, Answer(fuzz.TASK_SET_FULL, b"", b"", 0), TSIH)


@pytest.mark.parametrize("data", [b"\x03\0\1\0", b"\x09\0\1\0abcd", family.attribute(1, b"a") * 2, b"\x05"])
def test_attributes_that_are_none_are_found(data):
    with pytest.raises((ValueError, struct.error)):
        family.attributes(data)


@pytest.mark.guest
def test_a_target_under_stress_serves_on():
    """In short, and without the debug kernel: `cwndlab stress` is the whole."""
    stress.run(images.build(print, choose("uml")), stress.default_parts("uml"), quick=True, keep=False)
