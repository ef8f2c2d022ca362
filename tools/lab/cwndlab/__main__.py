# SPDX-License-Identifier: GPL-2.0-only
from cwndlab.cli import main

main()
