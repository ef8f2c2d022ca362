/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef TARGET_CORE_LOG_INTERNAL_H
#define TARGET_CORE_LOG_INTERNAL_H

#include <linux/types.h>
#include <target/target_core_base.h>

/* A log page while it is made */
struct target_log {
	u8 *buf;
	u32 len_bytes;
	u16 pointer;	/* parameters with a lower code are left out */
	int err;
};

sense_reason_t spc_emulate_log_sense(struct se_cmd *cmd);

#if IS_ENABLED(CONFIG_KUNIT)
sense_reason_t target_make_log_page(struct se_cmd *cmd, struct target_log *log);
#endif

#endif /* TARGET_CORE_LOG_INTERNAL_H */
