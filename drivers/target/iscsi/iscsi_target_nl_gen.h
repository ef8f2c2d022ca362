/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/iscsit.yaml */
/* YNL-GEN kernel header */

#ifndef _LINUX_ISCSIT_GEN_H
#define _LINUX_ISCSIT_GEN_H

#include <net/netlink.h>
#include <net/genetlink.h>

#include <uapi/linux/iscsit.h>

int iscsit_nl_conn_get_doit(struct sk_buff *skb, struct genl_info *info);
int iscsit_nl_conn_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb);
int iscsit_nl_sampling_get_doit(struct sk_buff *skb, struct genl_info *info);
int iscsit_nl_sampling_set_doit(struct sk_buff *skb, struct genl_info *info);

enum {
	ISCSIT_NLGRP_EVENTS,
	ISCSIT_NLGRP_SAMPLES,
};

extern struct genl_family iscsit_nl_family;

#endif /* _LINUX_ISCSIT_GEN_H */
