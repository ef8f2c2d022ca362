// SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/iscsit.yaml */
/* YNL-GEN kernel source */

#include <net/netlink.h>
#include <net/genetlink.h>

#include "iscsi_target_nl_gen.h"

#include <uapi/linux/iscsit.h>

/* Integer value ranges */
static const struct netlink_range_validation iscsit_a_period_ms_range = {
	.min	= 10ULL,
	.max	= 60000ULL,
};

/* ISCSIT_CMD_CONN_GET - do */
static const struct nla_policy iscsit_conn_get_nl_policy[ISCSIT_A_CONN_ID + 1] = {
	[ISCSIT_A_CONN_ID] = NLA_POLICY_MIN(NLA_U32, 1),
};

/* ISCSIT_CMD_SAMPLING_SET - do */
static const struct nla_policy iscsit_sampling_set_nl_policy[ISCSIT_A_PERIOD_MS + 1] = {
	[ISCSIT_A_PERIOD_MS] = NLA_POLICY_FULL_RANGE(NLA_U32, &iscsit_a_period_ms_range),
};

/* Ops table for iscsit */
static const struct genl_split_ops iscsit_nl_ops[] = {
	{
		.cmd		= ISCSIT_CMD_CONN_GET,
		.doit		= iscsit_nl_conn_get_doit,
		.policy		= iscsit_conn_get_nl_policy,
		.maxattr	= ISCSIT_A_CONN_ID,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd	= ISCSIT_CMD_CONN_GET,
		.dumpit	= iscsit_nl_conn_get_dumpit,
		.flags	= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DUMP,
	},
	{
		.cmd	= ISCSIT_CMD_SAMPLING_GET,
		.doit	= iscsit_nl_sampling_get_doit,
		.flags	= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
	{
		.cmd		= ISCSIT_CMD_SAMPLING_SET,
		.doit		= iscsit_nl_sampling_set_doit,
		.policy		= iscsit_sampling_set_nl_policy,
		.maxattr	= ISCSIT_A_PERIOD_MS,
		.flags		= GENL_UNS_ADMIN_PERM | GENL_CMD_CAP_DO,
	},
};

static const struct genl_multicast_group iscsit_nl_mcgrps[] = {
	[ISCSIT_NLGRP_EVENTS] = { "events", },
	[ISCSIT_NLGRP_SAMPLES] = { "samples", },
};

struct genl_family iscsit_nl_family __ro_after_init = {
	.name		= ISCSIT_FAMILY_NAME,
	.version	= ISCSIT_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.split_ops	= iscsit_nl_ops,
	.n_split_ops	= ARRAY_SIZE(iscsit_nl_ops),
	.mcgrps		= iscsit_nl_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(iscsit_nl_mcgrps),
};
