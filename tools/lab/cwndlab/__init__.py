# SPDX-License-Identifier: GPL-2.0-only
"""The lab: real kernels, emulated networks. One scenario, one boot, one JSON record."""
