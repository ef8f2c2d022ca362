/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ISCSI_TARGET_TCP_H
#define ISCSI_TARGET_TCP_H

#include <linux/kfifo.h>
#include <linux/refcount.h>
#include <linux/socket.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <target/iscsi/iscsi_target_core.h>
#include <uapi/linux/iscsit.h>

struct iscsit_regain;

/* Events that wait for the worker: a few round trips' worth */
#define ISCSIT_TCP_EVENTS	8

/**
 * struct iscsit_tcp_count - events of one cause
 * @count: since the connection was accepted
 * @cwnd_pkts: congestion window before the reduction, at the latest
 */
struct iscsit_tcp_count {
	u32 count;
	u32 cwnd_pkts;
};

/**
 * struct iscsit_tcp_event - TCP reduced its congestion window
 * @clock_us: CLOCK_MONOTONIC
 * @cause: why
 * @ca_state: state that was left
 * @snd_cwnd_pkts: congestion window; CWR and Recovery reduce it afterwards
 * @prior_cwnd_pkts: congestion window before the reduction
 * @ssthresh_pkts: where the congestion control has it go to
 * @counts: this event included
 */
struct iscsit_tcp_event {
	u64 clock_us;
	enum iscsit_cause cause;
	u8 ca_state;
	u32 snd_cwnd_pkts;
	u32 prior_cwnd_pkts;
	u32 ssthresh_pkts;
	struct iscsit_tcp_count counts[__ISCSIT_CAUSE_MAX];
};

/**
 * struct iscsit_tcp - what is known of one connection's TCP socket
 *
 * Made when the connection is accepted, so that no event is missed, and
 * published when it has logged in. The connection holds a reference and gives
 * it up when it closes; others may hold one longer.
 *
 * @hash: finds it by @sk, under RCU
 * @sk: the socket, held; NULL where there is none (iSER, offloads)
 * @net: network namespace in which it may be seen
 * @ref: references
 * @rcu: freed after a grace period
 * @work: hands @events on, and holds a reference while it is queued
 * @lock: protects @conn
 * @conn: the connection while it is logged in, else NULL
 * @id: unique, set before @conn like all that follow
 * @tpg_tag: target portal group tag
 * @tsih: target session identifying handle
 * @cid: connection ID
 * @isid: initiator session ID
 * @target_iqn: name of the target
 * @initiator_iqn: name of the initiator
 * @local: the target's address
 * @peer: the initiator's address
 * @counts: by cause; this and what follows is protected by the socket's lock
 * @delivered_ce: of the socket, at its latest change of state
 * @segs_out: of the socket, at its latest change of state
 * @undecided: @entry's cause is not certain yet
 * @entry: an entry into CWR of which only the next change of state tells
 *	whether a tail loss probe made it; its cause is what it is otherwise
 * @reductions: how many times TCP began to reduce the congestion window
 * @reduced_cause: why, at the latest time
 * @reduced_rtt_us: round trip then, of the latest packet that has arrived, with
 *	the queue that it found (after a tail loss it is the probe, which came
 *	later); smoothed, as long as none is known
 * @recovery: to be called as TCP, in Open or Disorder still, enters Recovery
 *	for a loss, and has reduced ssthresh; or NULL
 * @look: to be called some time after iscsit_tcp_look_later(), and again as
 *	long as it returns true; or NULL
 * @regain: for both
 * @look_work: calls @look, and holds a reference while it is queued
 * @events: to be handed on
 */
struct iscsit_tcp {
	struct hlist_node	hash;
	struct sock		*sk;
	struct net		*net;
	refcount_t		ref;
	struct rcu_head		rcu;
	struct work_struct	work;

	spinlock_t		lock;		/* protects conn */
	struct iscsit_conn	*conn;

	u32			id;
	u16			tpg_tag;
	u16			tsih;
	u16			cid;
	u8			isid[6];
	char			target_iqn[ISCSI_IQN_LEN];
	char			initiator_iqn[ISCSI_IQN_LEN];
	struct sockaddr_storage	local;
	struct sockaddr_storage	peer;

	struct iscsit_tcp_count	counts[__ISCSIT_CAUSE_MAX];
	u32			delivered_ce;
	u32			segs_out;
	bool			undecided;
	struct iscsit_tcp_event	entry;
	u32			reductions;
	enum iscsit_cause	reduced_cause;
	u32			reduced_rtt_us;
	void			(*recovery)(struct iscsit_regain *regain,
					    const struct iscsit_tcp *tcp,
					    struct sock *sk);
	bool			(*look)(struct iscsit_regain *regain,
					const struct iscsit_tcp *tcp,
					struct sock *sk);
	struct iscsit_regain	*regain;
	struct delayed_work	look_work;
	DECLARE_KFIFO(events, struct iscsit_tcp_event, ISCSIT_TCP_EVENTS);
};

/**
 * struct iscsit_tcp_state - one reading of a connection
 * @clock_us: CLOCK_MONOTONIC
 * @read_outstanding_bytes: asked for by READ commands and not yet handed to
 *	the socket
 * @tcp: there is a TCP socket: the fields that follow are valid
 * @info: as getsockopt(TCP_INFO) gives it
 * @prior_cwnd_pkts: congestion window before the latest reduction
 * @reduced_rtt_us: round trip at that time; 0: none yet
 * @sndbuf_bytes: size of the send buffer
 * @counts: events by cause
 */
struct iscsit_tcp_state {
	u64 clock_us;
	u64 read_outstanding_bytes;
	bool tcp;
	struct tcp_info info;
	u32 prior_cwnd_pkts;
	u32 reduced_rtt_us;
	u32 sndbuf_bytes;
	struct iscsit_tcp_count counts[__ISCSIT_CAUSE_MAX];
};

int iscsit_tcp_init(void);
void iscsit_tcp_exit(void);
bool iscsit_tcp_counts_events(void);

void iscsit_tcp_open(struct iscsit_conn *conn);
void iscsit_tcp_login(struct iscsit_conn *conn);
void iscsit_tcp_close(struct iscsit_conn *conn);

bool iscsit_tcp_published(struct iscsit_tcp *tcp);
struct iscsit_tcp *iscsit_tcp_find(const struct net *net, unsigned long *id);
void iscsit_tcp_look_later(struct iscsit_tcp *tcp);
void iscsit_tcp_put(struct iscsit_tcp *tcp);
void iscsit_tcp_query(struct iscsit_tcp *tcp, struct iscsit_tcp_state *state);

#if IS_ENABLED(CONFIG_KUNIT)
void iscsit_tcp_transition(struct iscsit_tcp *tcp, const struct sock *sk,
			   u8 new);
void iscsit_tcp_settle(struct iscsit_tcp *tcp);
#endif

#endif /* ISCSI_TARGET_TCP_H */
