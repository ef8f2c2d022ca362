// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the TCP socket of each connection knows about its path, and why TCP
 * reduced the congestion window.
 *
 * Most of it is read when somebody asks (iscsit_tcp_query()). Events are
 * counted as they happen, by a probe on the tracepoint tcp_cong_state_set,
 * which TCP passes with the socket locked, just before the state changes:
 *
 *	Recovery   one call in tcp_enter_recovery(), beside TCPSackRecovery or
 *	           TCPRenoRecovery: the count equals their sum.
 *	Loss       tcp_enter_loss(), called by tcp_retransmit_timer() after it
 *	           has counted TCPTimeouts. Each expiry counts, also while the
 *	           state is Loss already. The count differs from TCPTimeouts by
 *	           + expiries with the peer's window closed: tcp_enter_loss()
 *	             without TCPTimeouts, "Receiver dastardly shrinks window";
 *	           + path MTU reductions: tcp_non_congestion_loss_retransmit();
 *	           - expiries at which tcp_write_timeout() gives the connection
 *	             up, and those of SYN-ACKs (tcp_syn_ack_timeout()), of FINs
 *	             sent after the target closed, and of other sockets.
 *	CWR        three ways in, told apart below.
 *
 * The ways into CWR:
 *
 *	TLP    tcp_process_tlp_ack() found that a tail loss probe repaired a
 *	       loss (TCPLossProbeRecovery, the count equals it). It looks at no
 *	       state, and it leaves CWR in the same breath: nothing is
 *	       acknowledged beyond high_seq then, whereas CWR is otherwise left
 *	       only when something is (tcp_fastretrans_alert(), D).
 *	ECN    tcp_try_to_open(), for an acknowledgment with ECE. In Open and
 *	       Disorder every such acknowledgment changes the state, so if
 *	       delivered_ce has moved since the latest change, this is one.
 *	       Or it made the latest change too, while being processed; then
 *	       nothing was sent in between.
 *	local  __tcp_transmit_skb(), when the queueing discipline or the device
 *	       dropped or marked a packet (NET_XMIT_DROP, NET_XMIT_CN); segs_out
 *	       has been counted up by then.
 *
 * Not told apart from local: an acknowledgment with ECE that delivers nothing.
 * The delay gradient of the congestion control "cdg" counts as either.
 *
 * Whether an entry from Open or Disorder is TLP's is thus known at the next
 * change of state, or as soon as the socket is unlocked in CWR. Only a
 * connection that has sent a tail loss probe needs to wait for that.
 *
 * The probe must not sleep, not even on PREEMPT_RT. It writes down the event,
 * has cwnd regained where that is asked for, now and a little later, and leaves
 * the rest to a worker, and that only if somebody listens.
 */

#include <kunit/visibility.h>
#include <linux/hashtable.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <trace/events/tcp.h>

#include "iscsi_target_nl.h"
#include "iscsi_target_tcp.h"

/* Near by little waits for it long enough to look more often. */
#define TCP_LOOK_US	10000U

static DEFINE_HASHTABLE(tcp_by_sk, 8);
static DEFINE_SPINLOCK(tcp_by_sk_lock);		/* for writers */
static DEFINE_XARRAY_ALLOC1(tcp_by_id);		/* those that logged in */
static u32 tcp_next_id;
static struct workqueue_struct *tcp_wq;
static struct tracepoint *tcp_tracepoint;	/* NULL: not probed */

/* Caller holds the socket's lock. */
static void tcp_count(struct iscsit_tcp *tcp, struct iscsit_tcp_event *event)
{
	struct iscsit_tcp_count *count = &tcp->counts[event->cause];

	count->count++;
	count->cwnd_pkts = event->prior_cwnd_pkts;

	if (!iscsit_nl_wants_events(tcp->net))
		return;
	memcpy(event->counts, tcp->counts, sizeof(event->counts));
	/* Full: whoever listens sees from the counts that one is missing. */
	kfifo_put(&tcp->events, *event);
}

/**
 * iscsit_tcp_settle() - count an entry into CWR whose cause was uncertain
 * @tcp: the observed connection, socket locked
 */
VISIBLE_IF_KUNIT void iscsit_tcp_settle(struct iscsit_tcp *tcp)
{
	if (tcp->undecided) {
		tcp->undecided = false;
		tcp_count(tcp, &tcp->entry);
	}
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_tcp_settle);

/* The cause of an entry into CWR, unless a tail loss probe made it */
static enum iscsit_cause tcp_cwr_cause(const struct iscsit_tcp *tcp,
				       const struct tcp_sock *tp)
{
	if (tp->delivered_ce != tcp->delivered_ce ||
	    tp->segs_out == tcp->segs_out)
		return ISCSIT_CAUSE_CWR_ECN;
	return ISCSIT_CAUSE_CWR_LOCAL;
}

/**
 * iscsit_tcp_transition() - take note of a change of TCP's state
 * @tcp: the observed connection
 * @sk: its socket, locked, still in the old state
 * @new: the new state, which may be the old one
 */
VISIBLE_IF_KUNIT void iscsit_tcp_transition(struct iscsit_tcp *tcp,
					    const struct sock *sk, u8 new)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 old = inet_csk(sk)->icsk_ca_state;
	struct iscsit_tcp_event event = {
		.clock_us = ktime_to_us(ktime_get()),
		.ca_state = old,
		.snd_cwnd_pkts = tcp_snd_cwnd(tp),
		.prior_cwnd_pkts = tp->prior_cwnd,
		.ssthresh_pkts = tp->snd_ssthresh,
	};

	if (tcp->undecided && new < TCP_CA_CWR &&
	    !after(tp->snd_una, tp->high_seq)) {
		tcp->entry.cause = ISCSIT_CAUSE_CWR_TLP;
		tcp->reduced_cause = ISCSIT_CAUSE_CWR_TLP;
	}
	iscsit_tcp_settle(tcp);

	switch (new) {
	case TCP_CA_CWR:
		if (old >= TCP_CA_CWR) {
			/* tcp_enter_cwr() would not have called */
			event.cause = ISCSIT_CAUSE_CWR_TLP;
			tcp_count(tcp, &event);
			break;
		}
		event.cause = tcp_cwr_cause(tcp, tp);
		if (tp->tlp_retrans) {
			tcp->entry = event;
			tcp->undecided = true;
		} else {
			tcp_count(tcp, &event);
		}
		break;
	case TCP_CA_Recovery:
		event.cause = ISCSIT_CAUSE_RECOVERY;
		tcp_count(tcp, &event);
		break;
	case TCP_CA_Loss:
		event.cause = ISCSIT_CAUSE_LOSS;
		tcp_count(tcp, &event);
		break;
	}

	if (old < TCP_CA_CWR && new >= TCP_CA_CWR) {
		tcp->reductions++;
		tcp->reduced_cause = event.cause;
		tcp->reduced_rtt_us = tp->rack.rtt_us ?: tp->srtt_us >> 3;
	}

	tcp->delivered_ce = tp->delivered_ce;
	tcp->segs_out = tp->segs_out;
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_tcp_transition);

/*
 * TCP has just reduced ssthresh for a loss. From CWR it stays what that has made
 * of it, from Loss cwnd tells nothing, and marks are to be heeded: TCP keeps no
 * prior_ssthresh then.
 */
static bool tcp_reduces(const struct sock *sk, u8 new)
{
	return new == TCP_CA_Recovery &&
	       inet_csk(sk)->icsk_ca_state < TCP_CA_CWR &&
	       tcp_sk(sk)->prior_ssthresh;
}

static void tcp_probe(void *unused, struct sock *sk, const u8 new)
{
	struct iscsit_tcp *tcp;

	rcu_read_lock();
	hash_for_each_possible_rcu(tcp_by_sk, tcp, hash, (unsigned long)sk) {
		if (tcp->sk != sk)
			continue;
		iscsit_tcp_transition(tcp, sk, new);
		if (tcp->recovery && tcp_reduces(sk, new))
			tcp->recovery(tcp->regain, tcp, sk);
		if (tcp->look && new >= TCP_CA_CWR)
			iscsit_tcp_look_later(tcp);
		if ((!kfifo_is_empty(&tcp->events) ||
		     (tcp->undecided && iscsit_nl_wants_events(tcp->net))) &&
		    refcount_inc_not_zero(&tcp->ref) &&
		    !queue_work(tcp_wq, &tcp->work))
			iscsit_tcp_put(tcp);
		break;
	}
	rcu_read_unlock();
}

static void tcp_hand_on(struct work_struct *work)
{
	struct iscsit_tcp *tcp = container_of(work, struct iscsit_tcp, work);
	struct iscsit_tcp_event event;
	bool more, slow;

	do {
		slow = lock_sock_fast(tcp->sk);
		iscsit_tcp_settle(tcp);
		more = kfifo_get(&tcp->events, &event);
		unlock_sock_fast(tcp->sk, slow);

		if (more && iscsit_tcp_published(tcp))
			iscsit_nl_event(tcp, &event);
	} while (more);

	iscsit_tcp_put(tcp);
}

static void tcp_look_again(struct work_struct *work)
{
	struct iscsit_tcp *tcp = container_of(to_delayed_work(work),
					      struct iscsit_tcp, look_work);

	lock_sock(tcp->sk);
	if (tcp->look && tcp->look(tcp->regain, tcp, tcp->sk))
		iscsit_tcp_look_later(tcp);
	release_sock(tcp->sk);
	iscsit_tcp_put(tcp);
}

/**
 * iscsit_tcp_open() - observe a connection that was just accepted
 * @conn: the connection, which without memory goes unobserved
 */
void iscsit_tcp_open(struct iscsit_conn *conn)
{
	struct iscsit_tcp *tcp = kzalloc(sizeof(*tcp), GFP_KERNEL);
	bool slow;

	if (!tcp)
		return;

	refcount_set(&tcp->ref, 1);
	spin_lock_init(&tcp->lock);
	INIT_WORK(&tcp->work, tcp_hand_on);
	INIT_DELAYED_WORK(&tcp->look_work, tcp_look_again);
	INIT_KFIFO(tcp->events);
	tcp->net = &init_net;
	conn->tcp = tcp;

	if (!conn->sock || !sk_is_tcp(conn->sock->sk))
		return;
	tcp->sk = conn->sock->sk;
	sock_hold(tcp->sk);
	tcp->net = sock_net(tcp->sk);

	slow = lock_sock_fast(tcp->sk);
	tcp->delivered_ce = tcp_sk(tcp->sk)->delivered_ce;
	tcp->segs_out = tcp_sk(tcp->sk)->segs_out;
	spin_lock_bh(&tcp_by_sk_lock);
	hash_add_rcu(tcp_by_sk, &tcp->hash, (unsigned long)tcp->sk);
	spin_unlock_bh(&tcp_by_sk_lock);
	unlock_sock_fast(tcp->sk, slow);
}

/**
 * iscsit_tcp_login() - publish a connection that entered full-feature phase
 * @conn: the connection; those of discovery sessions are passed over
 */
void iscsit_tcp_login(struct iscsit_conn *conn)
{
	struct iscsit_session *sess = conn->sess;
	struct iscsi_portal_group *tpg = conn->tpg;
	struct iscsit_tcp *tcp = conn->tcp;

	if (!tcp || !tpg->tpg_tiqn)
		return;

	tcp->tpg_tag = tpg->tpgt;
	tcp->tsih = sess->tsih;
	tcp->cid = conn->cid;
	memcpy(tcp->isid, sess->isid, sizeof(tcp->isid));
	strscpy(tcp->target_iqn, tpg->tpg_tiqn->tiqn);
	strscpy(tcp->initiator_iqn, sess->se_sess->se_node_acl->initiatorname);
	tcp->local = conn->local_sockaddr;
	tcp->peer = conn->login_sockaddr;

	if (xa_alloc_cyclic(&tcp_by_id, &tcp->id, tcp,
			    XA_LIMIT(1, S32_MAX), &tcp_next_id, GFP_KERNEL) < 0) {
		tcp->id = 0;
		return;
	}

	spin_lock_bh(&tcp->lock);
	tcp->conn = conn;
	spin_unlock_bh(&tcp->lock);
}

/**
 * iscsit_tcp_close() - stop observing, before the socket is released
 * @conn: the connection, no longer on its session's list
 */
void iscsit_tcp_close(struct iscsit_conn *conn)
{
	struct iscsit_tcp *tcp = conn->tcp;
	bool slow;

	if (!tcp)
		return;

	conn->tcp = NULL;
	spin_lock_bh(&tcp->lock);
	tcp->conn = NULL;
	spin_unlock_bh(&tcp->lock);

	if (tcp->id)
		xa_erase(&tcp_by_id, tcp->id);
	if (tcp->sk) {
		slow = lock_sock_fast(tcp->sk);
		spin_lock_bh(&tcp_by_sk_lock);
		hash_del_rcu(&tcp->hash);
		spin_unlock_bh(&tcp_by_sk_lock);
		tcp->recovery = NULL;
		tcp->look = NULL;
		tcp->regain = NULL;
		unlock_sock_fast(tcp->sk, slow);
		if (cancel_delayed_work_sync(&tcp->look_work))
			iscsit_tcp_put(tcp);
	}
	iscsit_tcp_put(tcp);
}

/**
 * iscsit_tcp_look_later() - have a connection's look() called
 * @tcp: the observed connection, socket locked
 *
 * In a quarter of a round trip, and no less than 10 ms; in a timeout, if another
 * one has just been for nothing. If it is to be called sooner, that will do.
 */
void iscsit_tcp_look_later(struct iscsit_tcp *tcp)
{
	const struct inet_connection_sock *icsk = inet_csk(tcp->sk);
	u32 srtt_us = tcp_sk(tcp->sk)->srtt_us >> 3;
	unsigned long delay;

	delay = icsk->icsk_backoff > 1 ? icsk->icsk_rto :
		usecs_to_jiffies(max(srtt_us / 4, TCP_LOOK_US));
	if (!delayed_work_pending(&tcp->look_work) &&
	    refcount_inc_not_zero(&tcp->ref) &&
	    !queue_delayed_work(tcp_wq, &tcp->look_work, delay))
		iscsit_tcp_put(tcp);
}

/**
 * iscsit_tcp_put() - give up a reference
 * @tcp: the observed connection
 */
void iscsit_tcp_put(struct iscsit_tcp *tcp)
{
	if (!refcount_dec_and_test(&tcp->ref))
		return;
	if (tcp->sk)
		sock_put(tcp->sk);
	kfree_rcu(tcp, rcu);
}

/**
 * iscsit_tcp_published() - whether a connection may be seen
 * @tcp: the observed connection
 *
 * Return: true if it is logged in and its portal group has cwnd_feedback on.
 */
bool iscsit_tcp_published(struct iscsit_tcp *tcp)
{
	bool published;

	spin_lock_bh(&tcp->lock);
	published = tcp->conn &&
		    READ_ONCE(tcp->conn->tpg->tpg_attrib.cwnd_feedback);
	spin_unlock_bh(&tcp->lock);

	return published;
}

/**
 * iscsit_tcp_find() - the next published connection of a network namespace
 * @net: the network namespace
 * @id: in: lowest id to look at; out: id of the connection found
 *
 * Return: the connection with a reference, or NULL.
 */
struct iscsit_tcp *iscsit_tcp_find(const struct net *net, unsigned long *id)
{
	struct iscsit_tcp *tcp;

	rcu_read_lock();
	xa_for_each_start(&tcp_by_id, *id, tcp, *id)
		if (net_eq(tcp->net, net) &&
		    iscsit_tcp_published(tcp) &&
		    refcount_inc_not_zero(&tcp->ref))
			break;
	rcu_read_unlock();

	return tcp;
}

static u64 tcp_read_outstanding_bytes(struct iscsit_tcp *tcp)
{
	struct iscsit_cmd *cmd;
	u64 bytes = 0;
	u32 length;

	spin_lock_bh(&tcp->lock);
	if (tcp->conn) {
		spin_lock(&tcp->conn->cmd_lock);
		list_for_each_entry(cmd, &tcp->conn->conn_cmd_list,
				    i_conn_node) {
			if (!(cmd->se_cmd.se_cmd_flags & SCF_SCSI_DATA_CDB) ||
			    cmd->data_direction != DMA_FROM_DEVICE ||
			    cmd->i_state == ISTATE_SENT_STATUS)
				continue;
			length = READ_ONCE(cmd->se_cmd.data_length);
			bytes += length -
				 min(READ_ONCE(cmd->read_data_done), length);
		}
		spin_unlock(&tcp->conn->cmd_lock);
	}
	spin_unlock_bh(&tcp->lock);

	return bytes;
}

/**
 * iscsit_tcp_query() - read the present state of a connection
 * @tcp: the observed connection
 * @state: filled in
 *
 * Takes the socket's lock and may sleep.
 */
void iscsit_tcp_query(struct iscsit_tcp *tcp, struct iscsit_tcp_state *state)
{
	struct sock *sk = tcp->sk;
	bool slow;

	memset(state, 0, sizeof(*state));
	state->clock_us = ktime_to_us(ktime_get());
	state->read_outstanding_bytes = tcp_read_outstanding_bytes(tcp);
	state->tcp = sk;
	if (!sk)
		return;

	tcp_get_info(sk, &state->info);

	slow = lock_sock_fast(sk);
	iscsit_tcp_settle(tcp);
	state->prior_cwnd_pkts = tcp_sk(sk)->prior_cwnd;
	state->reduced_rtt_us = tcp->reduced_rtt_us;
	state->sndbuf_bytes = sk->sk_sndbuf;
	memcpy(state->counts, tcp->counts, sizeof(state->counts));
	unlock_sock_fast(sk, slow);
}

/**
 * iscsit_tcp_counts_events() - whether events are counted
 *
 * Return: false where the kernel has no tracepoints.
 */
bool iscsit_tcp_counts_events(void)
{
	return tcp_tracepoint;
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_tcp_counts_events);

static void __init tcp_find_tracepoint(struct tracepoint *tracepoint,
				       void *unused)
{
	if (!strcmp(tracepoint->name, "tcp_cong_state_set"))
		tcp_tracepoint = tracepoint;
}

/* By its name: TCP does not export the tracepoint to modules. */
static void __init tcp_register_probe(void)
{
	check_trace_callback_type_tcp_cong_state_set(tcp_probe);

	if (!IS_ENABLED(CONFIG_TRACEPOINTS))
		return;
	for_each_kernel_tracepoint(tcp_find_tracepoint, NULL);
	if (tcp_tracepoint &&
	    tracepoint_probe_register(tcp_tracepoint, tcp_probe, NULL))
		tcp_tracepoint = NULL;
}

int __init iscsit_tcp_init(void)
{
	int ret;

	tcp_wq = alloc_workqueue("iscsit_tcp", WQ_UNBOUND, 0);
	if (!tcp_wq)
		return -ENOMEM;

	ret = iscsit_nl_init();
	if (ret) {
		destroy_workqueue(tcp_wq);
		return ret;
	}

	tcp_register_probe();
	return 0;
}

/* No connection is left, but events of the last ones may be. */
void iscsit_tcp_exit(void)
{
	if (IS_ENABLED(CONFIG_TRACEPOINTS) && tcp_tracepoint) {
		tracepoint_probe_unregister(tcp_tracepoint, tcp_probe, NULL);
		tracepoint_synchronize_unregister();
	}
	destroy_workqueue(tcp_wq);
	iscsit_nl_exit();
}
