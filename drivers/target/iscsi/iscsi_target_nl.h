/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ISCSI_TARGET_NL_H
#define ISCSI_TARGET_NL_H

#include <linux/types.h>

struct iscsit_tcp;
struct iscsit_tcp_event;
struct net;

int iscsit_nl_init(void);
void iscsit_nl_exit(void);
bool iscsit_nl_wants_events(struct net *net);
void iscsit_nl_event(const struct iscsit_tcp *tcp,
		     const struct iscsit_tcp_event *event);

#endif /* ISCSI_TARGET_NL_H */
