// SPDX-License-Identifier: GPL-2.0-only
/*
 * A congestion window that soon is again what the path carries.
 *
 * After a loss TCP's congestion window grows by a packet in a round trip, or as
 * CUBIC's does: seconds over distance, though what the path carries is known,
 * and what is in flight has another bound here, what the initiator asks for.
 *
 * So where Recovery begins by chance, at no queue, ssthresh is what was
 * delivered in a least round trip, at the best rate of the latest ones, if that
 * is more than what the congestion control has made of it, but no more than
 * cwnd was, as with Westwood (Mascolo et al., "TCP Westwood: Bandwidth
 * estimation for enhanced transport over wireless links", MobiCom 2001). It is
 * so for all of that Recovery, and if a timeout ends it, slow start goes up to
 * it, as there. And each time a Data-In PDU is about to be sent, and the round
 * trip shows no queue:
 *
 *	If cwnd is less than that, ssthresh becomes it as well; TCP slow starts
 *	up to it, by a quarter at a time: from half of ssthresh on TCP paces it
 *	by 1.2 cwnd in a round trip instead of by two, which short queues hold.
 *
 *	Else, if cwnd is what bounds the connection and no reduction was for
 *	some round trips, ssthresh becomes a sixteenth more than cwnd, once in a
 *	round trip. Illinois (Liu, Basar, Srikant, "TCP-Illinois: A loss and
 *	delay-based congestion control algorithm for high-speed networks",
 *	VALUETOOLS 2006) adds ten packets where there is no queue.
 *
 *	It is half of cwnd instead if a reduction at no queue ended the first
 *	slow start, which then has not found what the path carries: while cwnd
 *	is at most a quarter more than what was delivered, which tells of it a
 *	round trip later. No longer once srtt shows a queue, or a reduction is
 *	no chance. (But of what an initial window holds, as while a login is
 *	repaired, neither shows a queue: of so few packets one that is
 *	acknowledged late is as much.) And again after the next by chance once
 *	half more is delivered than at that: it was not all that there is.
 *
 * Both are left to the congestion control after a reduction that a mark or the
 * own device asked for, or at a queue of more than three quarters of the
 * longest of the latest: that was no loss by chance, but a queue that
 * overflowed, however short, and maybe other flows' too. It takes twice as many
 * round trips until more is tried, each time that nothing has been gained since
 * the reduction before, at any queue; but eight where the congestion control
 * has left less than five eighths of what has been carried: that was others',
 * who may have gone; and none once the queue has turned out to be a longer
 * path, or, where the latest reduction was by chance, once a sixteenth more has
 * been delivered than before: the path has become faster. So that this is seen,
 * more than eight after the queue, and while there is none, a little more than
 * what is delivered is tried there: half of what that queue holds, and no more
 * than a sixteenth, or two packets. What is regained after the wait is no more
 * than was delivered meanwhile, if that was less than nine sixteenths of it:
 * the path may have become slower, and its queue overflows each time that it
 * is.
 *
 * A reduction at no queue was by chance, and asks for no such wait; where there
 * are many of these no time without one is long. So the next round trip will
 * do, while TCP repairs nothing; but within 32 only while srtt shows no queue:
 * a short one may be other flows', and more would overflow it. (A connection
 * that has not been reduced yet is taken for one that was at the first look.)
 * By chance is the next as well, if that is not long after, and its queue no
 * such overflow, and no more than a sixteenth of the round trip: a path that
 * loses by itself does so at any, and what is tried may be as much.
 *
 * Where losses by chance are a round trip apart or less TCP repairs them all
 * the time. PRR (RFC 6937) lets as much be sent then as is delivered, so that
 * each loss takes a packet from what is in flight, and nothing is regained. So
 * while one is repaired, and there is more to be sent, PRR is told of more that
 * was delivered: of each packet that was lost, and, where srtt shows a queue of
 * no more than a sixteenth of the round trip, which what is tried may be, of as
 * much again until cwnd is half of what was carried, of one for each four until
 * it is that, and one for each sixteen until it is a sixteenth more; or for
 * each two until it is a quarter more, where slow start was interrupted. (A
 * packet that is lost again holds back all that there was to send: PRR has cwnd
 * go down to what is in flight then. So as the next loss is to be repaired PRR
 * is told of all that is missing, if that is paced.)
 *
 * What comes behind a loss takes room in the send buffer until it is repaired,
 * and by then something is lost of what was sent in its place. TCP has it hold
 * two cwnd (up to four where a packet's room is rounded up much), of which
 * nothing may be left to be sent. After a loss by chance it holds four.
 *
 * A queue that holds less than a sixty-fourth of a round trip overflows at what
 * is taken for none. Then much of what is sent beyond what the path carries is
 * lost: if that was more than one packet of 32 in a round trip, and eight or
 * more, it is no chance. BBR (draft-ietf-ccwg-bbr) bounds what is in flight
 * where more than two of a hundred are lost, which one of a hundred by chance
 * come to too often. Where some are lost all the time it takes twice what is
 * usual more, of which no more than one of 32 counts. So as long as the loss is
 * repaired ssthresh is again what the congestion control has made of it, and
 * more is tried as after a queue that overflowed; and so it is after a loss
 * that follows within a round trip.
 *
 * Where a path has become much slower more of what is in flight is lost than
 * the congestion control takes from cwnd, and what that leaves overflows the
 * queue again, and again. So where Recovery begins for no chance, and three
 * eighths or more are lost, and eight packets, ssthresh is no more than what is
 * not, which the path and its queue hold, but no less than a quarter; and more
 * is tried as after a queue that overflowed. Of less in flight than is left of
 * cwnd, but five eighths or more of what was carried, one of 32 is enough.
 *
 * While a loss is repaired cwnd may be less than ssthresh, as PRR has it go
 * down to what is in flight. CUBIC's HyStart takes that for slow start, and at
 * a queue makes ssthresh what cwnd is: a few packets, if little was left in
 * flight. So ssthresh is no less than it was as TCP entered Recovery, or than
 * is not lost, until that is over.
 *
 * TCP paces by 1.2 cwnd in a round trip, or by two. While it repairs a loss the
 * path runs empty, and what refills it at such a rate makes a queue though less
 * is in flight than the path holds. So once ssthresh is known, that is, the
 * first slow start is over, pacing is bounded by the best rate, also of longer
 * ago, and a sixteenth; or by less, where the latest reduction that was no
 * chance had gained nothing since the one before: by what makes half of its
 * queue in a round trip. Where cwnd in a round trip is more than that there is
 * no bound, but, if there was such a reduction, and none by chance since, that
 * and a sixteenth while so much more is tried, and not half; and after one at a
 * queue, outside slow start, until more may be tried; and then none of less
 * than half of that (where all of cwnd had been used the best rate is more),
 * or, while srtt shows a queue, which others may fill, of less than all of it.
 * Where less than cwnd is advertised that and a sixteenth is bound enough: no
 * more can leave in a round trip, and TCP would wait for room for what it sends
 * at once, the more the faster it paces. TCP heeds the bound from the next
 * acknowledgment on.
 */

#include <kunit/visibility.h>
#include <linux/math64.h>
#include <net/proto_memory.h>
#include <net/tcp.h>
#include <target/iscsi/iscsi_target_core.h>

#include "iscsi_target_regain.h"
#include "iscsi_target_tcp.h"

/*
 * Round trips over which the least of them and the best rate are taken, and the
 * longest queue, and the best rate where less of late may be what others leave:
 * to pace by, and to wait by. TCP's own least one is that of five minutes, even
 * if the path has become longer since. A queue that stands for as many is taken
 * for a longer path, until a reduction makes it shorter; and one that less in
 * flight leaves as it is, at once. A rate is TCP's: while the application
 * bounds it, no lower one takes its place.
 */
#define REGAIN_TRIPS		48
#define REGAIN_LONG_TRIPS	256
/* Round trips with less in flight until a queue should be shorter */
#define REGAIN_LESS_TRIPS	2
/* Round trips until more is tried, at least and at most */
#define REGAIN_WAIT_TRIPS	32
#define REGAIN_MAX_WAIT_TRIPS	256
/* But where others have taken the path, or to try a little */
#define REGAIN_SHORT_WAIT_TRIPS	8
/* Until TCP's rate is one of after a reduction */
#define REGAIN_TOLD_TRIPS	2
/* So many packets lost in a round trip, and one of so many, are no chance. */
#define REGAIN_LOST_PKTS	8
#define REGAIN_LOST_PART	32
/* What is usually lost is packets, times two to the power of this. */
#define REGAIN_USUAL_SHIFT	8
/* A login, and the scan for disks, are no more packets. */
#define REGAIN_LOGIN_PKTS	64
/* fq counts the headers of a packet, too: this many bytes, at most. */
#define REGAIN_HEADER_BYTES	100
/* A rate is packets per microsecond, times two to the power of this. */
#define REGAIN_RATE_SHIFT	24

static u32 regain_queue_us(const struct iscsit_regain *regain, u32 rtt_us)
{
	return rtt_us - min(rtt_us, minmax_get(&regain->rtt_us));
}

/* A queue of no more is none: it may be jitter of a packet. */
static u32 regain_jitter_us(const struct iscsit_regain *regain)
{
	return minmax_get(&regain->rtt_us) / 64;
}

static bool regain_no_queue(const struct iscsit_regain *regain, u32 queue_us)
{
	return queue_us <= regain_jitter_us(regain);
}

/* One that what is tried may be */
static bool regain_small_queue(const struct iscsit_regain *regain, u32 queue_us)
{
	return queue_us <= minmax_get(&regain->rtt_us) / 16;
}

/* srtt shows a queue: no more is needed in flight. */
static bool regain_queues(const struct iscsit_regain *regain,
			  const struct tcp_sock *tp)
{
	return regain_queue_us(regain, tp->srtt_us >> 3) >
	       minmax_get(&regain->rtt_us) / 8;
}

/*
 * A queue that stays as it is, to a sixty-fourth of the round trip, with less
 * than three quarters of what was in flight before, is the path's length. What
 * was before a reduction does not count: whoever else fills a queue that has
 * overflowed keeps it as it is.
 */
static bool regain_longer(struct iscsit_regain *regain,
			  const struct tcp_sock *tp, u32 srtt_us)
{
	u32 pkts = tcp_packets_in_flight(tp);
	u32 same_us = srtt_us / 64;

	/* What is sent last, as less is, may be acknowledged late. */
	if (srtt_us > regain->even_us + same_us &&
	    pkts < regain->even_pkts / 4 * 3 &&
	    regain->trips - regain->even_trip <= 1)
		return false;
	if (!regain->even_pkts ||
	    abs_diff(srtt_us, regain->even_us) > same_us) {
		regain->even_us = srtt_us;
		regain->even_pkts = pkts;
	}
	regain->even_pkts = max(regain->even_pkts, pkts);
	if (pkts >= regain->even_pkts / 4 * 3)
		regain->even_trip = regain->trips;
	if (regain->trips - regain->even_trip <= REGAIN_LESS_TRIPS)
		return false;
	regain->even_pkts = pkts;
	regain->even_trip = regain->trips;
	return true;
}

/* Round trips since the latest reduction that was no chance */
static u32 regain_waited(const struct iscsit_regain *regain)
{
	return regain->trips - regain->queued_trip;
}

/* As many lost of what was sent are no chance, where none are usual. */
static u32 regain_many(u32 sent)
{
	return max(REGAIN_LOST_PKTS, sent / REGAIN_LOST_PART + 1);
}

static bool regain_lost_many(const struct iscsit_regain *regain, u32 sent,
			     u32 lost)
{
	u32 usual = div_u64((u64)sent * regain->usual_lost,
			    max(regain->usual_sent, 1U));
	u32 most = (sent << REGAIN_USUAL_SHIFT) / REGAIN_LOST_PART;

	return lost >= regain_many(sent) +
		       (2 * min(usual, most) >> REGAIN_USUAL_SHIFT);
}

/* What may be an overflow is not to become usual. */
static void regain_count_usual(struct iscsit_regain *regain, u32 sent, u32 lost)
{
	regain->usual_sent += sent - regain->usual_sent / 8;
	regain->usual_lost -= regain->usual_lost / 8;
	if (lost < regain_many(sent))
		regain->usual_lost += lost << REGAIN_USUAL_SHIFT;
}

static void regain_measure(struct iscsit_regain *regain,
			   const struct tcp_sock *tp)
{
	u32 before_us = minmax_get(&regain->rtt_us);
	u32 srtt_us = tp->srtt_us >> 3;
	u32 rate;

	/* The latter: at first, and when much else was sent in between */
	if (!before(tp->snd_una, regain->trip_end) ||
	    after(regain->trip_end, tp->snd_nxt)) {
		u32 lost = tp->lost - regain->trip_lost;
		u32 sent = tp->delivered - regain->trip_delivered + lost;

		regain->many_lost = regain_lost_many(regain, sent, lost);
		regain_count_usual(regain, sent, lost);
		regain->trip_lost = tp->lost;
		regain->trip_delivered = tp->delivered;
		regain->trip_end = tp->snd_nxt;
		regain->trips++;
	}

	minmax_running_min(&regain->rtt_us, REGAIN_TRIPS, regain->trips,
			   srtt_us);
	if (regain_longer(regain, tp, srtt_us))
		minmax_reset(&regain->rtt_us, regain->trips, srtt_us);
	/* What seemed to be a queue was a longer path. */
	if (minmax_get(&regain->rtt_us) > before_us + before_us / 8) {
		minmax_reset(&regain->queue_us, regain->trips, 0);
		/* And nothing is waited for any more. */
		regain->queued_trip = regain->trips - regain->wait_trips - 1;
		regain->left_rate = 0;
	}
	/*
	 * What is acknowledged selectively the other end may have held back for
	 * up to a millisecond: that is no queue, nor a rate what comes then.
	 * But where losses are by chance there may be no other.
	 */
	if (!tp->sacked_out)
		minmax_running_max(&regain->queue_us, REGAIN_LONG_TRIPS,
				   regain->trips,
				   regain_queue_us(regain, srtt_us));
	if (!tp->rate_interval_us || (tp->sacked_out && !regain->chance))
		return;
	rate = min_t(u64, U32_MAX,
		     div_u64((u64)tp->rate_delivered << REGAIN_RATE_SHIFT,
			     tp->rate_interval_us));
	minmax_running_max(&regain->rate, REGAIN_TRIPS, regain->trips, rate);
	minmax_running_max(&regain->long_rate, REGAIN_LONG_TRIPS, regain->trips,
			   rate);
	/* TCP's may be of before the reduction for as long. */
	if (regain_waited(regain) > REGAIN_TOLD_TRIPS &&
	    regain_waited(regain) <= regain->wait_trips)
		regain->left_rate = max(regain->left_rate, rate);
}

/* What was delivered in a least round trip at such a rate, in packets */
static u32 regain_carried(const struct iscsit_regain *regain, u32 rate)
{
	return (u64)rate * minmax_get(&regain->rtt_us) >> REGAIN_RATE_SHIFT;
}

/* More is delivered, by such a part, than at the latest that was no chance. */
static bool regain_gained(const struct iscsit_regain *regain, u32 part)
{
	return minmax_get(&regain->rate) >
	       regain->queued_rate + regain->queued_rate / part;
}

/* After a reduction that was no chance: until when, and by what it is paced */
static void regain_wait(struct iscsit_regain *regain,
			const struct tcp_sock *tp, u32 queue_us)
{
	u32 carried_pkts = regain_carried(regain,
					  minmax_get(&regain->long_rate));
	bool gained = regain_gained(regain, 16);

	if (tp->snd_ssthresh < carried_pkts / 8 * 5)
		regain->wait_trips = REGAIN_SHORT_WAIT_TRIPS;
	else if (gained)
		regain->wait_trips = REGAIN_WAIT_TRIPS;
	else if (regain->queued_trip != regain->trips)
		regain->wait_trips = clamp(2 * regain->wait_trips,
					   REGAIN_WAIT_TRIPS,
					   REGAIN_MAX_WAIT_TRIPS);
	regain->queued_us = gained ? 0 :
		max(queue_us, regain_jitter_us(regain));
	regain->queued_rate = minmax_get(&regain->rate);
	regain->queued_trip = regain->trips;
	regain->left_rate = 0;
	regain->interrupted = false;
}

static void regain_reduced(struct iscsit_regain *regain,
			   const struct iscsit_tcp *tcp,
			   const struct tcp_sock *tp)
{
	u32 queue_us = regain_queue_us(regain, tcp->reduced_rtt_us);
	u32 longest_us = minmax_running_max(&regain->queue_us,
					    REGAIN_LONG_TRIPS, regain->trips,
					    queue_us);
	bool marked = tcp->reduced_cause == ISCSIT_CAUSE_CWR_LOCAL ||
		      tcp->reduced_cause == ISCSIT_CAUSE_CWR_ECN;
	/* Of so few packets one that is acknowledged late is as much. */
	bool few = (regain->starting ||
		    (regain->interrupted &&
		     tp->delivered <= REGAIN_LOGIN_PKTS)) &&
		   tp->prior_cwnd <= TCP_INIT_CWND;
	bool queued = !few && !regain_no_queue(regain, queue_us);
	bool chance = regain->chance && regain_small_queue(regain, queue_us) &&
		      regain->trips - regain->reduced_trip <= REGAIN_LONG_TRIPS;

	regain->overflow = marked || (queued ? queue_us > longest_us / 4 * 3 :
					       regain->many_lost);
	regain->chance = !regain->overflow && !regain->many_lost &&
			 (!queued || chance);
	if (!regain->chance)
		regain_wait(regain, tp, queue_us);
	else if (regain->starting ||
		 (regain->queued_rate && regain_gained(regain, 2)))
		regain->interrupted = true;
	regain->reduced_trip = regain->trips;
	regain->reduced_pkts = 0;
	regain->reductions = tcp->reductions;
	regain->even_pkts = 0;
}

/* A loss that was taken for chance, and is being repaired, was one of many. */
static void regain_mistaken(struct iscsit_regain *regain, struct tcp_sock *tp)
{
	tp->snd_ssthresh = min(tp->snd_ssthresh, regain->reduced_pkts);
	regain->chance = false;
	regain->overflow = true;
	regain_wait(regain, tp, 0);
}

/*
 * So little of what was in flight is not lost that it is what the path and its
 * queue hold. Once as much is told of, what is told is of what was sent again,
 * or since, too.
 */
static void regain_leave(struct iscsit_regain *regain, struct tcp_sock *tp)
{
	u32 delivered = tp->delivered - regain->recovery_delivered;
	u32 lost = tp->lost - regain->recovery_lost;
	u32 pkts = regain->recovery_pkts;
	u32 left = max(pkts - min(lost, pkts), pkts / 4);

	if (lost < REGAIN_LOST_PKTS || delivered + lost > pkts ||
	    left >= min(regain->recovery_full_pkts, regain->reduced_pkts))
		return;
	regain->reduced_pkts = left;
	regain->overflow = true;
	tp->snd_ssthresh = min(tp->snd_ssthresh, left);
}

/*
 * Less has been delivered since such a reduction than even Reno's leaves of a
 * path and of a queue of an eighth of it (or so much was lost that no more is
 * left of cwnd): that is all that there is by now.
 */
static void regain_forget(struct iscsit_regain *regain)
{
	u32 left = regain->left_rate;

	regain->left_rate = 0;
	if (!left || left >= minmax_get(&regain->rate) / 16 * 9)
		return;
	minmax_reset(&regain->rate, regain->trips, left);
	regain->queued_rate = left;
}

/* More is not tried yet. */
static bool regain_waits(const struct iscsit_regain *regain)
{
	return regain_waited(regain) <= regain->wait_trips &&
	       !(regain->chance && regain_gained(regain, 16));
}

/* Losses are few, or there is no queue that more would overflow. */
static bool regain_has_room(const struct iscsit_regain *regain,
			    const struct tcp_sock *tp)
{
	return regain->trips - regain->reduced_trip > REGAIN_WAIT_TRIPS ||
	       regain_no_queue(regain,
			       regain_queue_us(regain, tp->srtt_us >> 3));
}

/**
 * iscsit_regain_bound_pacing() - bound what TCP paces by, or lift that bound
 * @regain: what is known of the path
 * @sk: the socket, locked
 * @bytes_per_s: the bound, ~0UL: none
 *
 * One that somebody else has set stays.
 */
VISIBLE_IF_KUNIT void iscsit_regain_bound_pacing(struct iscsit_regain *regain,
						 struct sock *sk,
						 unsigned long bytes_per_s)
{
	unsigned long ours = regain->pacing_bound ?: ~0UL;

	if (READ_ONCE(sk->sk_max_pacing_rate) != ours) {
		regain->pacing_bound = 0;
		return;
	}
	regain->pacing_bound = bytes_per_s == ~0UL ? 0 : bytes_per_s;
	if (bytes_per_s != ours)
		WRITE_ONCE(sk->sk_max_pacing_rate, bytes_per_s);
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_regain_bound_pacing);

/* What may be paced beyond such a rate; or in flight, beyond so many packets */
static u32 regain_beyond(const struct iscsit_regain *regain, u32 rate)
{
	u32 rtt_us = max(minmax_get(&regain->rtt_us), 1U);
	u32 most = rate / 16;

	if (!regain->queued_us)
		return most;
	return min_t(u64, most, div_u64((u64)rate * regain->queued_us,
					2 * rtt_us));
}

/*
 * The bound, ~0UL for none. Where others fill a queue the best rate becomes
 * what they leave, and a bound by that would lower it again and again.
 */
static unsigned long regain_pacing(const struct iscsit_regain *regain,
				   const struct sock *sk, bool overflowed)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rate = minmax_get(&regain->long_rate);
	u64 most = (u64)rate + regain_beyond(regain, rate);
	u64 bytes = tp->mss_cache;
	u64 used;
	u32 pkts;

	/* A window that is closed says nothing. */
	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH ||
	    (!rate && !tp->snd_wnd))
		return ~0UL;
	pkts = min(tcp_snd_cwnd(tp), DIV_ROUND_UP(tp->snd_wnd, tp->mss_cache));
	used = div_u64((u64)pkts << REGAIN_RATE_SHIFT,
		       max(tp->srtt_us >> 3, 1U));
	if (pkts < tcp_snd_cwnd(tp)) {
		/* No more than is advertised, however much cwnd is */
		if (!overflowed)
			used += used / 16;
	} else {
		bool beyond = used > most;
		bool tried = regain->tried_trip == regain->trips &&
			     regain->queued_rate && !regain->chance &&
			     !regain->interrupted;

		/* A sixteenth more in a round trip is no faster. */
		if (beyond && tried)
			used += used / 16;
		/* Other slow start has to find what the path carries. */
		else if (beyond && (!overflowed || tcp_in_slow_start(tp)))
			return ~0UL;
		else if (!regain_queues(regain, tp))
			used /= 2;
	}
	if (READ_ONCE(sk->sk_pacing_status) == SK_PACING_FQ)
		bytes += REGAIN_HEADER_BYTES;
	bytes = mul_u64_u64_shr(max(most, used), bytes * USEC_PER_SEC,
				REGAIN_RATE_SHIFT);

	return clamp_t(u64, bytes, 1, ~0UL);
}

/* What has become of the path, and how many packets it has carried */
static u32 regain_update(struct iscsit_regain *regain,
			 const struct iscsit_tcp *tcp,
			 const struct tcp_sock *tp)
{
	/* What was before the first look says nothing of now. */
	if (!regain->trips) {
		regain->reductions = tcp->reductions;
		regain->trip_delivered = tp->delivered;
		regain->trip_lost = tp->lost;
		minmax_reset(&regain->rtt_us, 0, tp->srtt_us >> 3);
		/* But that of a login was interrupted. */
		regain->interrupted = tp->snd_ssthresh <= TCP_INIT_CWND &&
				      tp->delivered <= REGAIN_LOGIN_PKTS;
	}
	regain_measure(regain, tp);
	if (tcp->reductions != regain->reductions)
		regain_reduced(regain, tcp, tp);
	if (regain_waited(regain) > regain->wait_trips)
		regain_forget(regain);

	return regain_carried(regain, minmax_get(&regain->rate));
}

/*
 * The first slow start has not found yet what the path carries, which is
 * rounded down.
 */
static bool regain_starts(const struct iscsit_regain *regain, u32 cwnd,
			  u32 carried)
{
	return regain->interrupted && cwnd <= carried + carried / 4 + 1;
}

/*
 * So many packets and a part more may be tried; while that waits, a little more
 * than is carried (which is rounded down), or none.
 */
static u32 regain_most(const struct iscsit_regain *regain,
		       const struct tcp_sock *tp, u32 pkts, u32 part,
		       u32 carried)
{
	u32 queue_us = regain_queue_us(regain, tp->srtt_us >> 3);

	if (!regain_waits(regain))
		return pkts + max(pkts / part, 1U);
	if (regain->chance && regain_no_queue(regain, queue_us) &&
	    regain_waited(regain) > REGAIN_SHORT_WAIT_TRIPS)
		return carried + max(regain_beyond(regain, carried), 1U) + 1;
	return 0;
}

/* A loss is being repaired, and what ssthresh was as that began is known. */
static bool regain_recovers(const struct iscsit_regain *regain,
			    const struct sock *sk)
{
	/* Without prior_ssthresh a mark has come meanwhile. */
	return inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery &&
	       regain->reduced_pkts && tcp_sk(sk)->prior_ssthresh;
}

/* It was no chance. */
static bool regain_overflows(const struct iscsit_regain *regain,
			     const struct sock *sk)
{
	return regain_recovers(regain, sk) && !regain->chance;
}

/* It was by chance, and there is more to be sent. */
static bool regain_repairs(const struct iscsit_regain *regain,
			   const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return regain_recovers(regain, sk) && regain->chance &&
	       before(tp->snd_nxt, tp->write_seq);
}

/*
 * In Recovery cwnd is what PRR lets be sent, and there is no more than ssthresh
 * in flight. What is too little for a packet counts at the next look.
 */
static void regain_repair(struct iscsit_regain *regain, struct tcp_sock *tp,
			  u32 carried, u32 delivered, u32 lost)
{
	u32 cwnd = tcp_snd_cwnd(tp);
	bool starts = regain_starts(regain, cwnd, carried);
	u32 most = max(carried, regain_most(regain, tp, carried,
					    starts ? 4 : 16, carried));
	u32 part = 16;
	u32 more;

	if (cwnd < carried / 2)
		part = 1;
	else if (starts)
		part = 2;
	else if (cwnd < carried)
		part = 4;
	tp->prr_delivered += lost;
	if (cwnd >= most ||
	    !regain_small_queue(regain,
				regain_queue_us(regain, tp->srtt_us >> 3)))
		return;

	regain->delivered -= delivered % part;
	more = min3(delivered / part, max(cwnd / part, 1U), most - cwnd);
	tp->prr_delivered += more;
	tp->snd_ssthresh = max(tp->snd_ssthresh, cwnd + more);
}

/* To four of what cwnd comes to once the loss is repaired */
static void regain_expand_sndbuf(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 pkts = max(tcp_snd_cwnd(tp), min(tp->snd_ssthresh, tp->prior_cwnd));
	u64 bytes = 4ULL * pkts * SKB_TRUESIZE(tp->mss_cache + MAX_TCP_HEADER);

	bytes = min_t(u64, bytes,
		      READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_wmem[2]));
	/* As tcp_should_expand_sndbuf() */
	if (bytes > sk->sk_sndbuf && !(sk->sk_userlocks & SOCK_SNDBUF_LOCK) &&
	    sk_memory_allocated(sk) < sk_prot_mem_limits(sk, 0) &&
	    !tcp_under_memory_pressure(sk))
		WRITE_ONCE(sk->sk_sndbuf, bytes);
}

/**
 * iscsit_regain_look() - maybe raise a connection's ssthresh, bound its pacing
 * @regain: what is known of the path, all zero at first
 * @tcp: what is known of the connection's TCP
 * @sk: its socket, locked
 */
VISIBLE_IF_KUNIT void iscsit_regain_look(struct iscsit_regain *regain,
					 const struct iscsit_tcp *tcp,
					 struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 carried = regain_update(regain, tcp, tp);
	u32 delivered = tp->delivered - regain->delivered;
	u32 lost = tp->lost - regain->lost;
	u32 cwnd = tcp_snd_cwnd(tp);
	bool overflowed;
	bool few;

	regain->delivered = tp->delivered;
	regain->lost = tp->lost;
	regain->starting = tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
	if (regain->starting)
		regain->interrupted = false;
	if (regain->many_lost && regain_repairs(regain, sk))
		regain_mistaken(regain, tp);
	if (regain_overflows(regain, sk))
		regain_leave(regain, tp);
	if (regain_recovers(regain, sk))
		tp->snd_ssthresh = max(tp->snd_ssthresh, regain->reduced_pkts);

	overflowed = regain_waits(regain) && regain->overflow;
	iscsit_regain_bound_pacing(regain, sk,
				   regain_pacing(regain, sk, overflowed));

	if (regain->chance)
		regain_expand_sndbuf(sk);
	few = regain->interrupted && carried <= TCP_INIT_CWND;
	if (!few && regain_queues(regain, tp)) {
		regain->interrupted = false;
		return;
	}
	if (regain_repairs(regain, sk))
		regain_repair(regain, tp, carried, delivered, lost);
	if (inet_csk(sk)->icsk_ca_state >= TCP_CA_CWR || tcp_in_slow_start(tp))
		return;

	if (cwnd < carried) {
		if (!overflowed)
			tp->snd_ssthresh = min(carried,
					       cwnd + max(cwnd / 4, 1));
	} else if (tp->is_cwnd_limited &&
		   (few || regain_has_room(regain, tp)) &&
		   regain->trips != regain->reduced_trip &&
		   regain->trips != regain->tried_trip) {
		u32 part = regain_starts(regain, cwnd, carried) ? 2 : 16;
		u32 most = regain_most(regain, tp, cwnd, part, carried);

		if (most > cwnd) {
			regain->tried_trip = regain->trips;
			tp->snd_ssthresh = most;
		}
	}
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_regain_look);

/**
 * iscsit_regain_recovery() - maybe raise what a loss has reduced ssthresh to
 * @regain: what is known of the path, after a first look
 * @tcp: what is known of the connection's TCP, which enters Recovery
 * @sk: its socket, locked, with ssthresh reduced
 */
VISIBLE_IF_KUNIT void iscsit_regain_recovery(struct iscsit_regain *regain,
					     const struct iscsit_tcp *tcp,
					     struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 carried = regain_update(regain, tcp, tp);

	/* What has made TCP enter Recovery is to be repaired as well. */
	regain->delivered = tp->delivered;
	regain->lost = tp->lost - tp->lost_out;
	regain->reduced_pkts = tp->snd_ssthresh;
	regain->recovery_pkts = tp->packets_out;
	regain->recovery_full_pkts = tp->packets_out / 8 * 5;
	/* Less than is left of cwnd, but no little that happens to be asked for */
	if (tp->packets_out < tp->snd_ssthresh &&
	    tp->packets_out >= carried / 8 * 5)
		regain->recovery_full_pkts = tp->packets_out -
					     regain_many(tp->packets_out) + 1;
	regain->recovery_delivered = tp->delivered - tp->sacked_out;
	regain->recovery_lost = regain->lost;
	if (!regain->chance)
		return;
	tp->snd_ssthresh = max(tp->snd_ssthresh, min(carried, tp->prior_cwnd));
	/* PRR would have cwnd go down to what is in flight. */
	if (READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE &&
	    tp->snd_ssthresh > ISCSIT_LOSSY_PKTS &&
	    tp->lost_out < regain_many(tp->packets_out))
		tp->prr_delivered += tp->snd_ssthresh -
				     min(tp->snd_ssthresh,
					 tcp_packets_in_flight(tp));
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_regain_recovery);

/**
 * iscsit_regain_look_again() - look while no Data-In PDU is about to be sent
 * @regain: what is known of the path, after a first look
 * @tcp: what is known of the connection's TCP
 * @sk: its socket, locked
 *
 * All that the initiator has asked for may be in the send buffer, which holds
 * four cwnd after a loss by chance. Nothing would be regained until that is
 * sent, which takes seconds if a timeout has left a few packets of cwnd. And
 * where all of it is in flight, and much is lost, it asks for no more until
 * that is repaired, too late for what is to be left of it.
 *
 * Return: true if it is to be called again.
 */
VISIBLE_IF_KUNIT bool iscsit_regain_look_again(struct iscsit_regain *regain,
					       const struct iscsit_tcp *tcp,
					       struct sock *sk)
{
	bool unsent = before(tcp_sk(sk)->snd_nxt, tcp_sk(sk)->write_seq);
	/* Since TCP entered Recovery, which something lost has told of */
	bool looked = regain->lost != regain->recovery_lost;

	if (regain_overflows(regain, sk) && (looked || !unsent)) {
		regain_leave(regain, tcp_sk(sk));
		return true;
	}
	if (!unsent)
		return false;
	iscsit_regain_look(regain, tcp, sk);
	return regain->chance || regain_overflows(regain, sk);
}
EXPORT_SYMBOL_IF_KUNIT(iscsit_regain_look_again);

/**
 * iscsit_regain() - let the congestion window regain what the path carries
 * @conn: the connection, over TCP, about to send a Data-In PDU
 *
 * Where the portal group has tcp_regain on, and reductions are known. A
 * congestion control that sets cwnd at each acknowledgment (cong_control), as
 * BBR does, is left alone. Without the attribute, or with such a one, the bound
 * on pacing is lifted.
 */
void iscsit_regain(struct iscsit_conn *conn)
{
	struct sock *sk = conn->sock->sk;
	struct iscsit_tcp *tcp = conn->tcp;
	bool on = conn->tpg->tpg_attrib.tcp_regain;

	if (!tcp || !tcp->sk || !iscsit_tcp_counts_events() ||
	    (!on && !tcp->recovery && !conn->regain.pacing_bound))
		return;

	lock_sock(sk);
	on = on && !inet_csk(sk)->icsk_ca_ops->cong_control;
	tcp->regain = &conn->regain;
	tcp->recovery = on ? iscsit_regain_recovery : NULL;
	tcp->look = on ? iscsit_regain_look_again : NULL;
	if (on) {
		iscsit_regain_look(&conn->regain, tcp, sk);
		if (conn->regain.chance || regain_overflows(&conn->regain, sk))
			iscsit_tcp_look_later(tcp);
	} else {
		conn->regain.chance = false;
		iscsit_regain_bound_pacing(&conn->regain, sk, ~0UL);
	}
	release_sock(sk);
}
