// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family "iscsit": what each connection's TCP socket knows.
 *
 * Specified in Documentation/netlink/specs/iscsit.yaml, from which the policies
 * and tables in iscsi_target_nl_gen.c are made.
 */

#include <linux/inet.h>
#include <linux/jiffies.h>
#include <linux/nsproxy.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "iscsi_target_nl.h"
#include "iscsi_target_nl_gen.h"
#include "iscsi_target_tcp.h"

#define SAMPLING_PERIOD_MS	100

/* A listener is told of before it listens. Wait for it that long. */
#define SAMPLING_GRACE		HZ

/**
 * struct iscsit_nl_net - sampling of one network namespace
 * @net: the namespace
 * @period_ms: time between two samples of a connection
 * @next: jiffies of the next samples, so that timers' rounding does not add up
 * @until: jiffies until which to go on although nobody listens
 * @work: takes the samples, not queued unless somebody listens
 */
struct iscsit_nl_net {
	struct net *net;
	u32 period_ms;
	unsigned long next;
	unsigned long until;
	struct delayed_work work;
};

static unsigned int iscsit_nl_net_id;

static const u8 count_attrs[__ISCSIT_CAUSE_MAX] = {
	[ISCSIT_CAUSE_CWR_LOCAL] = ISCSIT_A_CONN_CWR_LOCAL,
	[ISCSIT_CAUSE_CWR_ECN] = ISCSIT_A_CONN_CWR_ECN,
	[ISCSIT_CAUSE_RECOVERY] = ISCSIT_A_CONN_RECOVERY,
	[ISCSIT_CAUSE_LOSS] = ISCSIT_A_CONN_LOSS,
	[ISCSIT_CAUSE_CWR_TLP] = ISCSIT_A_CONN_CWR_TLP,
};

static bool put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put(skb, attr, sizeof(value), &value);
}

static bool put_addr(struct sk_buff *skb, int attr,
		     const struct sockaddr_storage *addr)
{
	return nla_put(skb, attr, addr->ss_family == AF_INET6 ?
		       sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
		       addr);
}

static bool put_counts(struct sk_buff *skb,
		       const struct iscsit_tcp_count counts[])
{
	struct nlattr *nest;
	int i;

	for (i = 0; i < __ISCSIT_CAUSE_MAX; i++) {
		nest = nla_nest_start(skb, count_attrs[i]);
		if (!nest ||
		    nla_put_u32(skb, ISCSIT_A_EVENT_COUNT_COUNT,
				counts[i].count) ||
		    nla_put_u32(skb, ISCSIT_A_EVENT_COUNT_CWND_PKTS,
				counts[i].cwnd_pkts))
			return true;
		nla_nest_end(skb, nest);
	}
	return false;
}

static bool put_tcp(struct sk_buff *skb, const struct iscsit_tcp_state *state)
{
	const struct tcp_info *info = &state->info;

	return nla_put_u8(skb, ISCSIT_A_CONN_CA_STATE, info->tcpi_ca_state) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_SND_CWND_PKTS,
			   info->tcpi_snd_cwnd) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_SSTHRESH_PKTS,
			   info->tcpi_snd_ssthresh) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_PRIOR_CWND_PKTS,
			   state->prior_cwnd_pkts) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_MSS_BYTES, info->tcpi_snd_mss) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_PACKETS_OUT_PKTS,
			   info->tcpi_unacked) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_LOST_PKTS, info->tcpi_lost) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_RETRANS_PKTS,
			   info->tcpi_retrans) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_SRTT_US, info->tcpi_rtt) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_RTTVAR_US, info->tcpi_rttvar) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_MIN_RTT_US, info->tcpi_min_rtt) ||
	       put_u64(skb, ISCSIT_A_CONN_DELIVERY_RATE_BYTES_PER_S,
		       info->tcpi_delivery_rate) ||
	       nla_put_u8(skb, ISCSIT_A_CONN_DELIVERY_RATE_APP_LIMITED,
			  info->tcpi_delivery_rate_app_limited) ||
	       put_u64(skb, ISCSIT_A_CONN_PACING_RATE_BYTES_PER_S,
		       info->tcpi_pacing_rate) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_SND_WND_BYTES,
			   info->tcpi_snd_wnd) ||
	       put_u64(skb, ISCSIT_A_CONN_BYTES_SENT, info->tcpi_bytes_sent) ||
	       put_u64(skb, ISCSIT_A_CONN_BYTES_ACKED,
		       info->tcpi_bytes_acked) ||
	       put_u64(skb, ISCSIT_A_CONN_BYTES_RETRANS,
		       info->tcpi_bytes_retrans) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_TOTAL_RETRANS_PKTS,
			   info->tcpi_total_retrans) ||
	       put_u64(skb, ISCSIT_A_CONN_BUSY_US, info->tcpi_busy_time) ||
	       put_u64(skb, ISCSIT_A_CONN_RWND_LIMITED_US,
		       info->tcpi_rwnd_limited) ||
	       put_u64(skb, ISCSIT_A_CONN_SNDBUF_LIMITED_US,
		       info->tcpi_sndbuf_limited) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_SNDBUF_BYTES,
			   state->sndbuf_bytes) ||
	       nla_put_u32(skb, ISCSIT_A_CONN_NOTSENT_BYTES,
			   info->tcpi_notsent_bytes) ||
	       put_counts(skb, state->counts);
}

static int put_conn(struct sk_buff *skb, const struct genl_info *info,
		    struct iscsit_tcp *tcp)
{
	struct iscsit_tcp_state state;
	void *header;

	header = genlmsg_iput(skb, info);
	if (!header)
		return -EMSGSIZE;

	iscsit_tcp_query(tcp, &state);
	if (nla_put_u32(skb, ISCSIT_A_CONN_ID, tcp->id) ||
	    nla_put_string(skb, ISCSIT_A_CONN_TARGET_IQN, tcp->target_iqn) ||
	    nla_put_u16(skb, ISCSIT_A_CONN_TPG_TAG, tcp->tpg_tag) ||
	    nla_put_string(skb, ISCSIT_A_CONN_INITIATOR_IQN,
			   tcp->initiator_iqn) ||
	    nla_put(skb, ISCSIT_A_CONN_ISID, sizeof(tcp->isid), tcp->isid) ||
	    nla_put_u16(skb, ISCSIT_A_CONN_TSIH, tcp->tsih) ||
	    nla_put_u16(skb, ISCSIT_A_CONN_CID, tcp->cid) ||
	    put_addr(skb, ISCSIT_A_CONN_LOCAL_ADDR, &tcp->local) ||
	    put_addr(skb, ISCSIT_A_CONN_PEER_ADDR, &tcp->peer) ||
	    put_u64(skb, ISCSIT_A_CONN_CLOCK_US, state.clock_us) ||
	    nla_put_u8(skb, ISCSIT_A_CONN_TCP, state.tcp) ||
	    (state.tcp && put_tcp(skb, &state)) ||
	    put_u64(skb, ISCSIT_A_CONN_READ_OUTSTANDING_BYTES,
		    state.read_outstanding_bytes)) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, header);
	return 0;
}

int iscsit_nl_conn_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct iscsit_tcp *tcp;
	struct sk_buff *reply;
	unsigned long id;
	int ret;

	if (GENL_REQ_ATTR_CHECK(info, ISCSIT_A_CONN_ID))
		return -EINVAL;

	id = nla_get_u32(info->attrs[ISCSIT_A_CONN_ID]);
	tcp = iscsit_tcp_find(genl_info_net(info), &id);
	if (!tcp)
		goto none;
	if (id != nla_get_u32(info->attrs[ISCSIT_A_CONN_ID]))
		goto put;

	reply = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	ret = reply ? put_conn(reply, info, tcp) : -ENOMEM;
	iscsit_tcp_put(tcp);
	if (ret) {
		nlmsg_free(reply);
		return ret;
	}
	return genlmsg_reply(reply, info);
put:
	iscsit_tcp_put(tcp);
none:
	NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[ISCSIT_A_CONN_ID],
			    "no connection with this id");
	return -ENOENT;
}

int iscsit_nl_conn_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct genl_info *info = genl_info_dump(cb);
	unsigned long *id = (void *)cb->ctx;
	struct iscsit_tcp *tcp;
	int ret = 0;

	while (!ret && (tcp = iscsit_tcp_find(genl_info_net(info), id))) {
		ret = put_conn(skb, info, tcp);
		iscsit_tcp_put(tcp);
		if (!ret)
			++*id;
	}
	return ret;
}

int iscsit_nl_sampling_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct iscsit_nl_net *nn = net_generic(genl_info_net(info),
					       iscsit_nl_net_id);
	struct sk_buff *reply;
	void *header;

	reply = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;

	header = genlmsg_iput(reply, info);
	if (!header || nla_put_u32(reply, ISCSIT_A_PERIOD_MS,
				   READ_ONCE(nn->period_ms))) {
		nlmsg_free(reply);
		return -EMSGSIZE;
	}
	genlmsg_end(reply, header);
	return genlmsg_reply(reply, info);
}

int iscsit_nl_sampling_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct iscsit_nl_net *nn = net_generic(genl_info_net(info),
					       iscsit_nl_net_id);

	if (GENL_REQ_ATTR_CHECK(info, ISCSIT_A_PERIOD_MS))
		return -EINVAL;

	WRITE_ONCE(nn->period_ms,
		   nla_get_u32(info->attrs[ISCSIT_A_PERIOD_MS]));
	/* Do not let a long period that has begun come to its end first. */
	if (cancel_delayed_work(&nn->work))
		schedule_delayed_work(&nn->work, 0);
	return 0;
}

static void send_samples(struct net *net)
{
	struct genl_info info;
	struct iscsit_tcp *tcp;
	struct sk_buff *skb;
	unsigned long id;

	genl_info_init_ntf(&info, &iscsit_nl_family,
			   ISCSIT_CMD_CONN_SAMPLE_NTF);
	for (id = 1; (tcp = iscsit_tcp_find(net, &id)); id++) {
		skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
		if (skb && !put_conn(skb, &info, tcp))
			genlmsg_multicast_netns(&iscsit_nl_family, net, skb, 0,
						ISCSIT_NLGRP_SAMPLES,
						GFP_KERNEL);
		else
			nlmsg_free(skb);
		iscsit_tcp_put(tcp);
	}
}

static void sampling_work(struct work_struct *work)
{
	struct iscsit_nl_net *nn = container_of(to_delayed_work(work),
						struct iscsit_nl_net, work);
	unsigned long period = msecs_to_jiffies(READ_ONCE(nn->period_ms));
	unsigned long now = jiffies;

	if (genl_has_listeners(&iscsit_nl_family, nn->net,
			       ISCSIT_NLGRP_SAMPLES))
		send_samples(nn->net);
	else if (time_after(now, READ_ONCE(nn->until)))
		return;

	nn->next += period;
	if (!time_in_range(nn->next, now, now + period))
		nn->next = now + period;
	schedule_delayed_work(&nn->work, nn->next - now);
}

/* Somebody is about to listen, in a network namespace that we are not told. */
static int iscsit_nl_bind(int group)
{
	struct iscsit_nl_net *nn;
	struct net *net;

	if (group != ISCSIT_NLGRP_SAMPLES)
		return 0;

	rcu_read_lock();
	for_each_net_rcu(net) {
		nn = net_generic(net, iscsit_nl_net_id);
		WRITE_ONCE(nn->until, jiffies + SAMPLING_GRACE);
		schedule_delayed_work(&nn->work, 0);
	}
	rcu_read_unlock();
	return 0;
}

/**
 * iscsit_nl_wants_events() - whether somebody listens to events
 * @net: in this network namespace
 *
 * Return: true if so.
 */
bool iscsit_nl_wants_events(struct net *net)
{
	return genl_has_listeners(&iscsit_nl_family, net, ISCSIT_NLGRP_EVENTS);
}

/**
 * iscsit_nl_event() - tell those who listen of an event
 * @tcp: the connection
 * @event: what happened
 *
 * May sleep. Without memory nobody is told, but the counts in the next message
 * show that one is missing.
 */
void iscsit_nl_event(const struct iscsit_tcp *tcp,
		     const struct iscsit_tcp_event *event)
{
	struct genl_info info;
	struct sk_buff *skb;
	void *header;

	skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!skb)
		return;

	genl_info_init_ntf(&info, &iscsit_nl_family, ISCSIT_CMD_CONN_EVENT_NTF);
	header = genlmsg_iput(skb, &info);
	if (!header ||
	    nla_put_u32(skb, ISCSIT_A_CONN_ID, tcp->id) ||
	    nla_put_string(skb, ISCSIT_A_CONN_TARGET_IQN, tcp->target_iqn) ||
	    nla_put_string(skb, ISCSIT_A_CONN_INITIATOR_IQN,
			   tcp->initiator_iqn) ||
	    nla_put_u16(skb, ISCSIT_A_CONN_TSIH, tcp->tsih) ||
	    nla_put_u16(skb, ISCSIT_A_CONN_CID, tcp->cid) ||
	    put_u64(skb, ISCSIT_A_CONN_CLOCK_US, event->clock_us) ||
	    nla_put_u8(skb, ISCSIT_A_CONN_CAUSE, event->cause) ||
	    nla_put_u8(skb, ISCSIT_A_CONN_CA_STATE, event->ca_state) ||
	    nla_put_u32(skb, ISCSIT_A_CONN_SND_CWND_PKTS,
			event->snd_cwnd_pkts) ||
	    nla_put_u32(skb, ISCSIT_A_CONN_PRIOR_CWND_PKTS,
			event->prior_cwnd_pkts) ||
	    nla_put_u32(skb, ISCSIT_A_CONN_SSTHRESH_PKTS,
			event->ssthresh_pkts) ||
	    put_counts(skb, event->counts)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast_netns(&iscsit_nl_family, tcp->net, skb, 0,
				ISCSIT_NLGRP_EVENTS, GFP_KERNEL);
}

static int __net_init iscsit_nl_net_init(struct net *net)
{
	struct iscsit_nl_net *nn = net_generic(net, iscsit_nl_net_id);

	nn->net = net;
	nn->period_ms = SAMPLING_PERIOD_MS;
	INIT_DELAYED_WORK(&nn->work, sampling_work);
	return 0;
}

static void __net_exit iscsit_nl_net_exit(struct net *net)
{
	struct iscsit_nl_net *nn = net_generic(net, iscsit_nl_net_id);

	cancel_delayed_work_sync(&nn->work);
}

static struct pernet_operations iscsit_nl_net_ops = {
	.init = iscsit_nl_net_init,
	.exit = iscsit_nl_net_exit,
	.id = &iscsit_nl_net_id,
	.size = sizeof(struct iscsit_nl_net),
};

/* The generator knows neither the flags of groups nor bind(). */
static const struct genl_multicast_group iscsit_nl_admin_mcgrps[] = {
	[ISCSIT_NLGRP_EVENTS] = {
		.name = ISCSIT_MCGRP_EVENTS,
		.flags = GENL_MCAST_CAP_NET_ADMIN,
	},
	[ISCSIT_NLGRP_SAMPLES] = {
		.name = ISCSIT_MCGRP_SAMPLES,
		.flags = GENL_MCAST_CAP_NET_ADMIN,
	},
};

int __init iscsit_nl_init(void)
{
	int ret;

	iscsit_nl_family.mcgrps = iscsit_nl_admin_mcgrps;
	iscsit_nl_family.bind = iscsit_nl_bind;

	ret = register_pernet_subsys(&iscsit_nl_net_ops);
	if (ret)
		return ret;
	ret = genl_register_family(&iscsit_nl_family);
	if (ret)
		unregister_pernet_subsys(&iscsit_nl_net_ops);
	return ret;
}

void iscsit_nl_exit(void)
{
	genl_unregister_family(&iscsit_nl_family);
	unregister_pernet_subsys(&iscsit_nl_net_ops);
}
