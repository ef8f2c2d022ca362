// SPDX-License-Identifier: GPL-2.0-only
/*
 * A congestion window that soon is again what the path carries.
 *
 * After a loss TCP's congestion window grows by a packet in a round trip, or as
 * CUBIC's does: seconds over distance, though what the path carries is known,
 * and what is in flight has another bound here, what the initiator asks for.
 * So each time a Data-In PDU is about to be sent, and the round trip shows no
 * queue:
 *
 *	If cwnd is less than what was delivered in a least round trip, at the
 *	best rate of the latest ones, ssthresh becomes that, as with Westwood
 *	(Mascolo et al., "TCP Westwood: Bandwidth estimation for enhanced
 *	transport over wireless links", MobiCom 2001); TCP slow starts up to it.
 *
 *	Else, if cwnd is what bounds the connection and no reduction was for
 *	some round trips, ssthresh becomes an eighth more than cwnd, once in a
 *	round trip. Illinois (Liu, Basar, Srikant, "TCP-Illinois: A loss and
 *	delay-based congestion control algorithm for high-speed networks",
 *	VALUETOOLS 2006) adds ten packets where there is no queue.
 *
 * Both are left to the congestion control after a reduction that a mark or the
 * own device asked for, or at a queue of more than half of the longest of the
 * latest: that was no loss by chance, but a queue that overflowed, however
 * short, and maybe other flows' too. It takes twice as many round trips until
 * more is tried, each time that nothing has been gained since the reduction
 * before.
 */

#include <kunit/visibility.h>
#include <linux/math64.h>
#include <net/tcp.h>
#include <target/iscsi/iscsi_target_core.h>

#include "iscsi_target_regain.h"

/*
 * Round trips over which the best rate and the longest queue are taken. A rate
 * is TCP's: while the application bounds it, no lower one takes its place.
 */
#define REGAIN_RATE_TRIPS	48
#define REGAIN_QUEUE_TRIPS	256
/* Round trips until more is tried, at least and at most */
#define REGAIN_WAIT_TRIPS	32
#define REGAIN_MAX_WAIT_TRIPS	256
/* A rate is packets per microsecond, times two to the power of this. */
#define REGAIN_RATE_SHIFT	24

static u32 regain_queue_us(const struct tcp_sock *tp)
{
	u32 srtt_us = tp->srtt_us >> 3;

	return srtt_us - min(srtt_us, tcp_min_rtt(tp));
}

static void regain_measure(struct iscsit_regain *regain,
			   const struct tcp_sock *tp)
{
	u64 rate;

	/* The latter: at first, and when much else was sent in between */
	if (!before(tp->snd_una, regain->trip_end) ||
	    after(regain->trip_end, tp->snd_nxt)) {
		regain->trip_end = tp->snd_nxt;
		regain->trips++;
	}

	minmax_running_max(&regain->queue_us, REGAIN_QUEUE_TRIPS, regain->trips,
			   regain_queue_us(tp));
	if (!tp->rate_interval_us)
		return;
	rate = div_u64((u64)tp->rate_delivered << REGAIN_RATE_SHIFT,
		       tp->rate_interval_us);
	minmax_running_max(&regain->rate, REGAIN_RATE_TRIPS, regain->trips,
			   min_t(u64, rate, U32_MAX));
}

static void regain_reduced(struct iscsit_regain *regain, const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rate = minmax_get(&regain->rate);
	/* No more than the latter may be jitter. */
	u32 long_us = max(minmax_get(&regain->queue_us) / 2,
			  tcp_min_rtt(tp) / 16);

	if (rate > regain->reduced_rate + regain->reduced_rate / 16)
		regain->wait_trips = REGAIN_WAIT_TRIPS;
	else
		regain->wait_trips = clamp(2 * regain->wait_trips,
					   REGAIN_WAIT_TRIPS,
					   REGAIN_MAX_WAIT_TRIPS);
	regain->overflow = inet_csk(sk)->icsk_ca_state == TCP_CA_CWR ||
			   regain_queue_us(tp) > long_us;
	regain->reduced_rate = rate;
	regain->reduced_trip = regain->trips;
}

/**
 * iscsit_regain_ssthresh() - look at a connection, and maybe raise its ssthresh
 * @regain: what is known of the path, all zero at first
 * @sk: the connection's socket, locked
 */
VISIBLE_IF_KUNIT void iscsit_regain_ssthresh(struct iscsit_regain *regain,
					     struct sock *sk)
{
	bool reducing = inet_csk(sk)->icsk_ca_state >= TCP_CA_CWR;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 min_rtt_us = tcp_min_rtt(tp);
	u32 cwnd = tcp_snd_cwnd(tp);
	u32 carried;
	bool waits;

	regain_measure(regain, tp);

	/* The latter: it may have begun and ended since the last look. */
	if (!regain->reducing && (reducing || tp->lost != regain->lost))
		regain_reduced(regain, sk);
	regain->reducing = reducing;
	regain->lost = tp->lost;

	if (reducing || tcp_in_slow_start(tp) ||
	    regain_queue_us(tp) > min_rtt_us / 8)
		return;

	waits = regain->trips - regain->reduced_trip <= regain->wait_trips;
	carried = (u64)minmax_get(&regain->rate) * min_rtt_us >>
		  REGAIN_RATE_SHIFT;
	if (cwnd < carried) {
		if (!waits || !regain->overflow)
			tp->snd_ssthresh = carried;
	} else if (!waits && tp->is_cwnd_limited &&
		   regain->trips != regain->tried_trip) {
		regain->tried_trip = regain->trips;
		tp->snd_ssthresh = cwnd + max(cwnd / 8, 1);
	}
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_regain_ssthresh);

/**
 * iscsit_regain() - let the congestion window regain what the path carries
 * @conn: the connection, over TCP, about to send a Data-In PDU
 *
 * Where the portal group has tcp_regain on. A congestion control that sets cwnd
 * at each acknowledgment (cong_control), as BBR does, is left alone.
 */
void iscsit_regain(struct iscsit_conn *conn)
{
	struct sock *sk = conn->sock->sk;

	if (!conn->tpg->tpg_attrib.tcp_regain)
		return;

	lock_sock(sk);
	if (!inet_csk(sk)->icsk_ca_ops->cong_control)
		iscsit_regain_ssthresh(&conn->regain, sk);
	release_sock(sk);
}
