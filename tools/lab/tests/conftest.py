# SPDX-License-Identifier: GPL-2.0-only


def pytest_configure(config):
    config.addinivalue_line("markers", "guest: looks at runs of booted labs (minutes)")
    config.addinivalue_line("markers", "qemu: compares runs of all engines (minutes, needs an idle machine)")
