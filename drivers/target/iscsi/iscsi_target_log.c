// SPDX-License-Identifier: GPL-2.0-only
/*
 * Log page 3Ch: the TCP state of the connections of the asking session, for
 * its initiator. Layout: Documentation/target/iscsit_cwnd.rst.
 */

#include <kunit/visibility.h>
#include <linux/errno.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/unaligned.h>
#include <target/target_core_base.h>
#include <target/target_core_log.h>
#include <target/iscsi/iscsi_target_core.h>

#include "iscsi_target.h"
#include "iscsi_target_log.h"
#include "iscsi_target_tcp.h"

#define LOG_CODE		0x3c
#define LOG_VERSION		1
#define LOG_SESSION_BYTES	32

#define LOG_CONN_TCP		BIT(0)
#define LOG_CONN_APP_LIMITED	BIT(1)
#define LOG_CONN_COUNTS		BIT(2)

struct log_conn {
	struct iscsit_tcp *tcp;
	struct iscsit_tcp_state state;
};

static struct iscsit_session *log_session(struct se_cmd *cmd)
{
	return cmd->se_sess->fabric_sess_ptr;
}

static bool log_supported(struct se_cmd *cmd)
{
	return cmd->se_tfo == &iscsi_ops &&
	       READ_ONCE(log_session(cmd)->tpg->tpg_attrib.cwnd_feedback);
}

static int log_by_cid(const void *a, const void *b)
{
	const struct log_conn *x = a, *y = b;

	return x->tcp->cid - y->tcp->cid;
}

/* Reading a socket may sleep: take references under the lock, read later. */
static int log_get_conns(struct iscsit_session *sess, struct log_conn *conns,
			 int max)
{
	struct iscsit_conn *conn;
	int n = 0;

	spin_lock_bh(&sess->conn_lock);
	list_for_each_entry(conn, &sess->sess_conn_list, conn_list) {
		if (n == max)
			break;
		if (conn->tcp && iscsit_tcp_published(conn->tcp)) {
			conns[n].tcp = conn->tcp;
			refcount_inc(&conns[n++].tcp->ref);
		}
	}
	spin_unlock_bh(&sess->conn_lock);

	sort(conns, n, sizeof(*conns), log_by_cid, NULL);
	return n;
}

static void log_put_count(u8 *p, const struct iscsit_tcp_count *count)
{
	put_unaligned_be32(count->count, p);
	put_unaligned_be32(count->cwnd_pkts, p + 4);
}

/**
 * iscsit_log_put_conn() - a connection's parameter
 * @p: ISCSIT_LOG_CONN_BYTES bytes, zeroed
 * @tcp: the connection
 * @state: what it is in
 */
VISIBLE_IF_KUNIT void iscsit_log_put_conn(u8 *p, const struct iscsit_tcp *tcp,
					  const struct iscsit_tcp_state *state)
{
	const struct tcp_info *info = &state->info;

	put_unaligned_be16(tcp->cid, p);
	put_unaligned_be64(state->read_outstanding_bytes, p + 144);
	if (!state->tcp)
		return;

	p[2] = LOG_CONN_TCP;
	if (info->tcpi_delivery_rate_app_limited)
		p[2] |= LOG_CONN_APP_LIMITED;
	if (iscsit_tcp_counts_events())
		p[2] |= LOG_CONN_COUNTS;
	p[3] = info->tcpi_ca_state;
	put_unaligned_be32(info->tcpi_snd_mss, p + 4);
	put_unaligned_be32(info->tcpi_snd_cwnd, p + 8);
	put_unaligned_be32(info->tcpi_snd_ssthresh, p + 12);
	put_unaligned_be32(state->prior_cwnd_pkts, p + 16);
	put_unaligned_be32(info->tcpi_unacked, p + 20);
	put_unaligned_be32(info->tcpi_lost, p + 24);
	put_unaligned_be32(info->tcpi_retrans, p + 28);
	put_unaligned_be32(info->tcpi_rtt, p + 32);
	put_unaligned_be32(info->tcpi_rttvar, p + 36);
	put_unaligned_be32(info->tcpi_min_rtt, p + 40);
	put_unaligned_be32(info->tcpi_snd_wnd, p + 44);
	put_unaligned_be64(info->tcpi_delivery_rate, p + 48);
	put_unaligned_be64(info->tcpi_pacing_rate, p + 56);
	put_unaligned_be64(info->tcpi_bytes_sent, p + 64);
	put_unaligned_be64(info->tcpi_bytes_acked, p + 72);
	put_unaligned_be64(info->tcpi_bytes_retrans, p + 80);
	put_unaligned_be64(info->tcpi_busy_time, p + 88);
	put_unaligned_be64(info->tcpi_rwnd_limited, p + 96);
	put_unaligned_be64(info->tcpi_sndbuf_limited, p + 104);
	log_put_count(p + 112, &state->counts[ISCSIT_CAUSE_CWR_LOCAL]);
	log_put_count(p + 120, &state->counts[ISCSIT_CAUSE_CWR_ECN]);
	log_put_count(p + 128, &state->counts[ISCSIT_CAUSE_RECOVERY]);
	log_put_count(p + 136, &state->counts[ISCSIT_CAUSE_LOSS]);
	put_unaligned_be32(info->tcpi_total_retrans, p + 152);
	put_unaligned_be32(state->sndbuf_bytes, p + 156);
	put_unaligned_be32(info->tcpi_notsent_bytes, p + 160);
	put_unaligned_be32(state->counts[ISCSIT_CAUSE_CWR_TLP].count, p + 164);
	put_unaligned_be32(state->reduced_rtt_us, p + 168);
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_log_put_conn);

static void log_put_session(u8 *p, const struct iscsit_session *sess,
			    const struct log_conn *conns, int n)
{
	u64 outstanding_bytes = 0;
	int i;

	for (i = 0; i < n; i++)
		outstanding_bytes += conns[i].state.read_outstanding_bytes;

	memcpy(p, "LIO-CWND", 8);
	p[8] = LOG_VERSION;
	put_unaligned_be16(n, p + 10);
	put_unaligned_be16(sess->tsih, p + 12);
	put_unaligned_be16(min(sess->cmdsn_window, U16_MAX), p + 14);
	put_unaligned_be64(ktime_to_us(ktime_get()), p + 16);
	put_unaligned_be64(outstanding_bytes, p + 24);
}

static int log_fill(struct se_cmd *cmd, struct target_log *log)
{
	struct iscsit_session *sess = log_session(cmd);
	int i, n, max = atomic_read(&sess->nconn);
	struct log_conn *conns;
	u8 *p;

	conns = kvcalloc(max, sizeof(*conns), GFP_KERNEL);
	if (!conns)
		return -ENOMEM;
	n = log_get_conns(sess, conns, max);
	for (i = 0; i < n; i++)
		iscsit_tcp_query(conns[i].tcp, &conns[i].state);

	p = target_log_add(log, 0, LOG_SESSION_BYTES);
	if (p)
		log_put_session(p, sess, conns, n);
	for (i = 0; i < n; i++) {
		p = target_log_add(log, 1 + i, ISCSIT_LOG_CONN_BYTES);
		if (p)
			iscsit_log_put_conn(p, conns[i].tcp, &conns[i].state);
		iscsit_tcp_put(conns[i].tcp);
	}
	kvfree(conns);
	return 0;
}

static struct target_log_page log_page = {
	.code = LOG_CODE,
	.supported = log_supported,
	.fill = log_fill,
};

int __init iscsit_log_init(void)
{
	return target_register_log_page(&log_page);
}

void iscsit_log_exit(void)
{
	target_unregister_log_page(&log_page);
}
