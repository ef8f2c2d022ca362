/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ISCSI_TARGET_LOG_H
#define ISCSI_TARGET_LOG_H

#include <linux/types.h>

#define ISCSIT_LOG_CONN_BYTES	172

struct iscsit_tcp;
struct iscsit_tcp_state;

int iscsit_log_init(void);
void iscsit_log_exit(void);

#if IS_ENABLED(CONFIG_KUNIT)
void iscsit_log_put_conn(u8 *p, const struct iscsit_tcp *tcp,
			 const struct iscsit_tcp_state *state);
#endif

#endif /* ISCSI_TARGET_LOG_H */
