/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef TARGET_CORE_LOG_H
#define TARGET_CORE_LOG_H

#include <linux/list.h>
#include <linux/types.h>

struct se_cmd;
struct target_log;

/* Vendor specific log pages, SPC-6 table 357. */
#define TARGET_LOG_VENDOR_FIRST	0x30
#define TARGET_LOG_VENDOR_LAST	0x3e

/**
 * struct target_log_page - a vendor specific log page and who fills it
 * @code: page code, 30h to 3Eh
 * @supported: whether the page exists for the session and device of @cmd
 * @fill: append the parameters, in ascending order of their codes, with
 *	target_log_add(), or return an error, and there is no page; may sleep
 * @node: private
 */
struct target_log_page {
	u8 code;
	bool (*supported)(struct se_cmd *cmd);
	int (*fill)(struct se_cmd *cmd, struct target_log *log);
	struct list_head node;
};

int target_register_log_page(struct target_log_page *page);
void target_unregister_log_page(struct target_log_page *page);
u8 *target_log_add(struct target_log *log, u16 code, u8 len_bytes);

#endif /* TARGET_CORE_LOG_H */
