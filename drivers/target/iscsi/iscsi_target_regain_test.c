// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests: when ssthresh lets the congestion window regain what the path
 * carries.
 *
 * A socket that is not connected to anything, on a path of 20 ms that has
 * carried 100 packets in a round trip.
 */

#include <kunit/test.h>
#include <linux/module.h>
#include <net/tcp.h>
#include <target/iscsi/iscsi_target_core.h>

#include "iscsi_target_regain.h"
#include "iscsi_target_tcp.h"

#define MIN_RTT_US	20000
#define CARRIED		100
/* What is usually lost, in packets */
#define USUAL(pkts)	((pkts) << 8)

struct regain_test {
	struct iscsit_regain regain;
	struct iscsit_tcp tcp;
	struct tcp_sock tp;
	u32 carries;
	u32 unsent_bytes;
};

/* Each round trip is 100 packets of 1000 bytes. */
static void trip(struct regain_test *t, u32 queue_us)
{
	t->tp.srtt_us = (MIN_RTT_US + queue_us) << 3;
	t->tp.rate_delivered = min(t->tp.snd_cwnd, t->carries);
	t->tp.snd_una = t->tp.snd_nxt;
	t->tp.snd_nxt += CARRIED * 1000;
	t->tp.write_seq = t->tp.snd_nxt + t->unsent_bytes;
	t->tp.delivered += CARRIED;
	iscsit_regain_look(&t->regain, &t->tcp, (struct sock *)&t->tp);
}

static void pass_trips(struct regain_test *t, int n)
{
	while (n--)
		trip(t, 0);
}

static void set_window(struct regain_test *t, u32 cwnd)
{
	t->tp.snd_cwnd = cwnd;
	t->tp.snd_ssthresh = cwnd;
}

/* A round trip in which all of what the path carries from now on was used */
static void carry(struct regain_test *t, u32 pkts)
{
	t->carries = pkts;
	set_window(t, pkts);
	trip(t, 0);
}

/* A reduction to 70 packets at such a queue, over before the next look */
static void reduce(struct regain_test *t, u32 queue_us,
		   enum iscsit_cause cause)
{
	t->tcp.reductions++;
	t->tcp.reduced_cause = cause;
	t->tcp.reduced_rtt_us = MIN_RTT_US + queue_us;
	t->tp.prior_cwnd = t->tp.snd_cwnd;
	set_window(t, 70);
}

static int regain_test_init(struct kunit *test)
{
	struct regain_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	if (!t)
		return -ENOMEM;
	t->tp.snd_una = -1000000u;
	t->tp.snd_nxt = t->tp.snd_una;
	t->carries = CARRIED;
	t->tp.rate_interval_us = MIN_RTT_US;
	t->tp.is_cwnd_limited = true;
	t->tp.mss_cache = 1000;
	t->tp.snd_wnd = 1000000;
	((struct sock *)&t->tp)->sk_max_pacing_rate = ~0UL;
	sock_net_set((struct sock *)&t->tp, &init_net);
	((struct sock *)&t->tp)->sk_prot = &tcp_prot;
	set_window(t, CARRIED);
	trip(t, 0);
	set_window(t, CARRIED);
	test->priv = t;
	return 0;
}

static void expect_ssthresh(struct kunit *test, u32 ssthresh)
{
	struct regain_test *t = test->priv;

	/* A rate is rounded down. */
	KUNIT_EXPECT_GE(test, t->tp.snd_ssthresh + 1, ssthresh);
	KUNIT_EXPECT_LE(test, t->tp.snd_ssthresh, ssthresh);
}

/* Another round trip, and what ssthresh is then */
static void expect_trip(struct kunit *test, u32 queue_us, u32 ssthresh)
{
	trip(test->priv, queue_us);
	expect_ssthresh(test, ssthresh);
}

static void expect_pacing(struct kunit *test, unsigned long least,
			  unsigned long most)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	KUNIT_EXPECT_GE(test, sk->sk_max_pacing_rate, least);
	KUNIT_EXPECT_LE(test, sk->sk_max_pacing_rate, most);
}

/* So many packets in 20 ms, and little more; 0: pacing is not bounded */
static void expect_bound(struct kunit *test, u32 pkts, unsigned long more)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	/* Packets of 1000 bytes, 50 round trips in a second */
	unsigned long bytes_per_s = pkts * 50000ul;

	if (pkts)
		expect_pacing(test, bytes_per_s - 1000, bytes_per_s + more);
	else
		KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, ~0UL);
}

/* Round trips, with such a queue, until more than this is tried */
static int trips_until_more(struct regain_test *t, u32 queue_us, u32 cwnd)
{
	int trips = 0;

	set_window(t, cwnd);
	while (t->tp.snd_ssthresh <= cwnd && trips < 1000) {
		trip(t, queue_us);
		trips++;
	}
	return trips;
}

static void a_loss_by_chance(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 2000);
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	/* A quarter of cwnd at a time */
	expect_trip(test, 0, 87);
	set_window(t, 87);
	expect_trip(test, 0, CARRIED);
}

/* ssthresh as the congestion control has reduced it, and what it becomes */
static void as_recovery_begins(struct kunit *test)
{
	static const struct {
		u32 queue_us;
		u32 prior_cwnd;
		u32 reduced;
		u32 ssthresh;
	} losses[] = {
		{ 0, CARRIED + 20, 70, CARRIED },
		{ MIN_RTT_US / 64, CARRIED + 20, 70, CARRIED },
		{ MIN_RTT_US / 64 + 1, CARRIED + 20, 70, 70 },
		{ 0, 90, 70, 90 },
		{ 0, CARRIED + 50, CARRIED + 5, CARRIED + 5 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(losses); i++) {
		reduce(t, losses[i].queue_us, ISCSIT_CAUSE_RECOVERY);
		t->tp.prior_cwnd = losses[i].prior_cwnd;
		t->tp.snd_ssthresh = losses[i].reduced;
		iscsit_regain_recovery(&t->regain, &t->tcp,
				       (struct sock *)&t->tp);
		expect_ssthresh(test, losses[i].ssthresh);
	}
}

/* PRR lets through what is missing, if that is paced, and the loss is chance. */
static void as_much_as_is_missing_as_recovery_begins(struct kunit *test)
{
	static const struct {
		u32 queue_us;
		enum sk_pacing pacing;
		u32 prior_cwnd;
		u32 in_flight;
		u32 lost;
		u32 more;
	} cases[] = {
		{ 0, SK_PACING_NEEDED, 90, 30, 1, 60 },
		{ 0, SK_PACING_FQ, 90, 30, 1, 60 },
		{ 0, SK_PACING_NEEDED, 90, 90, 1, 0 },
		{ 0, SK_PACING_NEEDED, 90, 91, 1, 0 },
		{ 0, SK_PACING_NONE, 90, 30, 1, 0 },
		/* An overflow, as far as is known yet */
		{ 0, SK_PACING_NEEDED, 90, 30, 7, 60 },
		{ 0, SK_PACING_NEEDED, 90, 30, 8, 0 },
		/* Of few packets what comes at once is not paced. */
		{ 0, SK_PACING_NEEDED, 33, 10, 1, 23 },
		{ 0, SK_PACING_NEEDED, 32, 10, 1, 0 },
		{ MIN_RTT_US / 64 + 1, SK_PACING_NEEDED, 90, 30, 1, 0 },
	};
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		sk->sk_pacing_status = cases[i].pacing;
		reduce(t, cases[i].queue_us, ISCSIT_CAUSE_RECOVERY);
		t->tp.snd_ssthresh = 20;
		t->tp.prior_cwnd = cases[i].prior_cwnd;
		t->tp.packets_out = cases[i].in_flight + 4 + cases[i].lost;
		t->tp.sacked_out = 4;
		t->tp.lost_out = cases[i].lost;
		t->tp.prr_delivered = 0;
		iscsit_regain_recovery(&t->regain, &t->tcp, sk);
		KUNIT_EXPECT_EQ_MSG(test, t->tp.prr_delivered, cases[i].more,
				    "%d", i);
	}
}

/* Its queue has overflowed, which the next looks know. */
static void after_recovery_has_begun_at_a_queue(struct kunit *test)
{
	struct regain_test *t = test->priv;

	reduce(t, 2000, ISCSIT_CAUSE_RECOVERY);
	t->tp.prior_cwnd = CARRIED;
	iscsit_regain_recovery(&t->regain, &t->tcp, (struct sock *)&t->tp);
	expect_ssthresh(test, 70);
	t->tcp.reduced_rtt_us = MIN_RTT_US;
	expect_trip(test, 0, 70);
}

static void while_reduced_and_with_a_queue(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 20000);
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_Recovery;
	expect_trip(test, 0, 70);
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_Open;
	expect_trip(test, MIN_RTT_US / 8 + 1, 70);
	expect_trip(test, MIN_RTT_US / 8, 87);
}

/* TCP enters Recovery, with such a cwnd before. */
static void enter_recovery(struct regain_test *t, u32 queue_us, u32 cwnd)
{
	struct sock *sk = (struct sock *)&t->tp;

	reduce(t, queue_us, ISCSIT_CAUSE_RECOVERY);
	t->tp.prior_cwnd = cwnd;
	t->tp.prior_ssthresh = cwnd;
	iscsit_regain_recovery(&t->regain, &t->tcp, sk);
	inet_csk(sk)->icsk_ca_state = TCP_CA_Recovery;
}

/* A loss that is being repaired, and more is to be sent */
static void repair(struct regain_test *t, u32 queue_us, u32 cwnd)
{
	enter_recovery(t, queue_us, cwnd);
	t->unsent_bytes = 1000;
	trip(t, 0);
}

/* What PRR counts beyond what was delivered, and ssthresh, which was 70 */
static void while_losses_by_chance_are_repaired(struct kunit *test)
{
	static const struct {
		u32 cwnd;
		u32 lost;
		u32 queue_us;
		s32 delivered;	/* and 100 */
		u32 more;
		u32 ssthresh;
	} trips[] = {
		{ CARRIED - 1, 0, 0, 0, 6, 105 },
		{ CARRIED - 1, 2, 0, 0, 8, 105 },
		/* What is less than 16 counts the next time. */
		{ CARRIED - 1, 0, 0, 40 - CARRIED - 8, 2, 101 },
		{ CARRIED - 1, 0, 0, 8 - CARRIED, 1, 100 },
		/* No more than a sixteenth more than was carried */
		{ CARRIED + 4, 0, 0, 0, 1, 105 },
		{ CARRIED + 5, 2, 0, 0, 2, 70 },
		/* Nor with a queue that may be what is tried */
		{ CARRIED - 1, 2, MIN_RTT_US / 16, 0, 8, 105 },
		{ CARRIED - 1, 2, MIN_RTT_US / 16 + 1, 0, 2, 70 },
		{ CARRIED - 1, 2, MIN_RTT_US / 8 + 1, 0, 0, 70 },
		/* Sooner back at what was carried */
		{ 60, 0, 0, 0, 15, 75 },
		{ 60, 0, 0, 44 - CARRIED, 11, 71 },
		{ 50, 0, 0, 0, 12, 70 },
		/* As slow start where it is less than half of that */
		{ 48, 0, 0, 0, 48, 96 },
		{ 48, 0, 0, 30 - CARRIED, 30, 78 },
	};
	struct regain_test *t = test->priv;
	int i;

	repair(t, 0, CARRIED);
	for (i = 0; i < ARRAY_SIZE(trips); i++) {
		t->tp.prr_delivered = 0;
		t->tp.snd_cwnd = trips[i].cwnd;
		t->tp.snd_ssthresh = 70;
		t->tp.lost += trips[i].lost;
		t->tp.delivered += trips[i].delivered;
		trip(t, trips[i].queue_us);
		KUNIT_EXPECT_EQ_MSG(test, t->tp.prr_delivered, trips[i].more,
				    "%d", i);
		KUNIT_EXPECT_EQ_MSG(test, t->tp.snd_ssthresh,
				    trips[i].ssthresh, "%d", i);
	}
}

/* What ssthresh is then where so many of them are lost, two and three at once */
static void no_more_than_is_not_lost(struct kunit *test)
{
	static const struct {
		u32 pkts;
		u32 delivered;
		u32 lost;
		u32 ssthresh;
	} cases[] = {
		{ CARRIED, 60, 40, 70 },
		{ CARRIED, 59, 41, 59 },
		{ CARRIED, 2, 41, 59 },
		{ CARRIED, 25, 75, 25 },
		{ CARRIED, 24, 76, 25 },
		/* And what was sent since */
		{ CARRIED, 60, 41, 70 },
		{ CARRIED, 0, 101, 70 },
		/* No more than the congestion control leaves */
		{ 200, 110, 90, 70 },
		/* Of no more than that, of less, and of what happened to be */
		{ 70, 30, 29, 70 },
		{ 70, 30, 31, 39 },
		{ 69, 30, 7, 70 },
		{ 69, 30, 8, 61 },
		{ 60, 30, 8, 52 },
		{ 59, 30, 8, 70 },
		/* Of what was half of cwnd, and of few */
		{ 48, 30, 18, 70 },
		{ 48, 29, 19, 29 },
		{ 11, 4, 7, 70 },
		{ 12, 4, 8, 4 },
		{ 8, 0, 8, 2 },
	};
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	int i;

	t->unsent_bytes = 1000;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		inet_csk(sk)->icsk_ca_state = TCP_CA_Open;
		memset(&t->regain, 0, sizeof(t->regain));
		t->tp.sacked_out = 0;
		carry(t, CARRIED);
		t->tp.lost += 2;
		t->tp.lost_out = 2;
		t->tp.delivered += 3;
		t->tp.sacked_out = 3;
		t->tp.packets_out = cases[i].pkts;
		enter_recovery(t, MIN_RTT_US / 64 + 1, CARRIED);
		t->tp.lost += cases[i].lost - 2;
		t->tp.delivered += cases[i].delivered - 3 - CARRIED;
		trip(t, 0);
		KUNIT_EXPECT_EQ_MSG(test, t->tp.snd_ssthresh,
				    cases[i].ssthresh, "%d", i);
		/* Nor is it more at the next look. */
		trip(t, 0);
		KUNIT_EXPECT_EQ_MSG(test, t->tp.snd_ssthresh,
				    cases[i].ssthresh, "%d", i);
	}
}

/* Of 69 packets of cwnd's 100, and then of all of them */
static void less_as_more_is_lost(struct kunit *test)
{
	static const u32 ssthresh[][5] = {
		{ 69, 70, 61, 49, 48 },
		{ 100, 70, 70, 70, 70 },
	};
	static const u32 lost[] = { 7, 1, 12, 1 };
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(ssthresh); i++) {
		inet_csk(sk)->icsk_ca_state = TCP_CA_Open;
		memset(&t->regain, 0, sizeof(t->regain));
		carry(t, CARRIED);
		t->tp.packets_out = ssthresh[i][0];
		enter_recovery(t, MIN_RTT_US / 64 + 1, CARRIED);
		for (j = 0; j < ARRAY_SIZE(lost); j++) {
			t->tp.lost += lost[j];
			t->tp.delivered -= CARRIED;
			trip(t, 0);
			KUNIT_EXPECT_EQ_MSG(test, t->tp.snd_ssthresh,
					    ssthresh[i][1 + j], "%d %d", i, j);
		}
	}
}

/* Of 639, 19 are no more than are lost by chance */
static void little_is_lost_of_many_packets(struct kunit *test)
{
	struct regain_test *t = test->priv;

	carry(t, CARRIED);
	t->tp.packets_out = 639;
	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	t->tp.snd_ssthresh = 700;
	t->tp.prior_cwnd = 1000;
	t->tp.prior_ssthresh = 1000;
	iscsit_regain_recovery(&t->regain, &t->tcp, (struct sock *)&t->tp);
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_Recovery;
	t->tp.lost += 19;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, t->tp.snd_ssthresh, 700);
	t->tp.lost++;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, t->tp.snd_ssthresh, 619);
}

/* A queue that was no longer than others: but for that it would be at once. */
static void after_what_is_not_lost(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	trip(t, MIN_RTT_US);
	t->tp.packets_out = CARRIED;
	enter_recovery(t, MIN_RTT_US / 2, CARRIED);
	t->tp.lost += 50;
	t->tp.delivered -= 50;
	expect_trip(test, 0, 50);
	inet_csk(sk)->icsk_ca_state = TCP_CA_Open;
	set_window(t, 50);
	KUNIT_EXPECT_EQ(test, trips_until_more(t, 0, 50), 32);
}

/* HyStart makes it what cwnd is, where that is less as little is in flight. */
static void no_less_than_as_recovery_began(struct kunit *test)
{
	struct regain_test *t = test->priv;

	repair(t, MIN_RTT_US / 64 + 1, CARRIED);
	t->tp.snd_cwnd = 20;
	t->tp.snd_ssthresh = 20;
	expect_trip(test, 0, 70);
	t->tp.snd_ssthresh = 80;
	expect_trip(test, 0, 80);
	/* A mark */
	t->tp.snd_ssthresh = 20;
	t->tp.prior_ssthresh = 0;
	expect_trip(test, 0, 20);
}

/* Nor where nothing more is to be sent, or a mark has come */
static void nothing_more_while_other_losses_are_repaired(struct kunit *test)
{
	static const struct {
		u32 queue_us;
		u32 unsent_bytes;
		u32 prior_ssthresh;
		u32 more;
	} cases[] = {
		{ 0, 1, 1, 8 },
		{ MIN_RTT_US / 64 + 1, 1, 1, 0 },
		{ 0, 0, 1, 0 },
		{ 0, 1, 0, 0 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain.queue_us, 0, sizeof(t->regain.queue_us));
		pass_trips(t, 300);
		repair(t, cases[i].queue_us, CARRIED);
		t->unsent_bytes = cases[i].unsent_bytes;
		t->tp.prior_ssthresh = cases[i].prior_ssthresh;
		t->tp.snd_cwnd = CARRIED - 1;
		t->tp.prr_delivered = 0;
		t->tp.lost += 2;
		trip(t, 0);
		KUNIT_EXPECT_EQ_MSG(test, t->tp.prr_delivered, cases[i].more,
				    "%d", i);
	}
}

/* Those of a round trip that are more than chance, and how long it waits */
static void many_losses_are_no_chance(struct kunit *test)
{
	static const struct {
		u32 delivered;
		u32 lost;
		u32 ssthresh;
		int waits;
	} cases[] = {
		{ 0, 7, CARRIED, 1 },
		{ 0, 8, 70, 33 },
		{ 248 - CARRIED, 8, CARRIED, 1 },
		{ 247 - CARRIED, 8, 70, 65 },
	};
	struct regain_test *t = test->priv;
	struct inet_connection_sock *icsk = inet_csk((struct sock *)&t->tp);
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		icsk->icsk_ca_state = TCP_CA_Open;
		repair(t, 0, CARRIED);
		t->tp.snd_cwnd = 200;
		/* What was lost in the case before is not usual. */
		t->regain.usual_lost = 0;
		t->tp.delivered += cases[i].delivered;
		t->tp.lost += cases[i].lost;
		expect_trip(test, 0, cases[i].ssthresh);
		icsk->icsk_ca_state = TCP_CA_Open;
		KUNIT_EXPECT_EQ(test, trips_until_more(t, 0, CARRIED),
				cases[i].waits);
	}

	/* Nor is a loss after these. */
	t->tp.lost += 8;
	trip(t, 0);
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	t->tp.prior_cwnd = CARRIED;
	iscsit_regain_recovery(&t->regain, &t->tcp, (struct sock *)&t->tp);
	expect_ssthresh(test, 70);
	expect_trip(test, 0, 70);
}

/* A round trip of so many packets; were many lost? */
static bool many_lost(struct regain_test *t, u32 delivered, u32 lost)
{
	t->tp.delivered += delivered - CARRIED;
	t->tp.lost += lost;
	trip(t, 0);
	return t->regain.many_lost;
}

/* Those of a round trip; 800 are usually sent, and what is lost of these then */
static void many_losses_are_more_than_is_usual(struct kunit *test)
{
	static const struct {
		u32 usual_lost;
		u32 delivered;
		u32 lost;
		bool many;
		u32 then_lost;
	} cases[] = {
		/* A path that seldom loses: eight, or more than one of 32 */
		{ 0, 200, 7, false, 7 },
		{ 0, 200, 8, true, 0 },
		{ 0, 601, 19, false, 19 },
		{ 0, 600, 20, true, 0 },
		/* One of a hundred, of 200: eight and twice two */
		{ 8, 189, 11, false, 7 },
		{ 8, 188, 12, true, 7 },
		/* One of 50, of 640: 21 and twice 12.8 */
		{ 16, 620, 20, false, 34 },
		{ 16, 595, 45, false, 14 },
		{ 16, 594, 46, true, 14 },
		/* No more than one of 32 is usual. */
		{ 400, 580, 60, false, 350 },
		{ 400, 579, 61, true, 350 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		bool many;

		t->regain.usual_sent = 800;
		t->regain.usual_lost = USUAL(cases[i].usual_lost);
		many = many_lost(t, cases[i].delivered, cases[i].lost);
		KUNIT_EXPECT_EQ_MSG(test, many, cases[i].many, "%d", i);
		KUNIT_EXPECT_EQ_MSG(test, t->regain.usual_lost,
				    USUAL(cases[i].then_lost), "%d", i);
	}
}

/* A step of a sixteenth, with chance losses and once these are over */
static void many_losses_become_not_usual(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int trips;

	for (trips = 0; trips < 30; trips++)
		KUNIT_EXPECT_FALSE(test, many_lost(t, 196, 4));
	KUNIT_EXPECT_TRUE(test, many_lost(t, 184, 16));
	for (trips = 0; trips < 30; trips++)
		KUNIT_EXPECT_FALSE(test, many_lost(t, 196, 4));
	for (trips = 1; trips < 30 && !many_lost(t, 188, 12); trips++)
		;
	KUNIT_EXPECT_EQ(test, trips, 5);
	/* Nor is one packet usual for good. */
	pass_trips(t, 30);
	KUNIT_EXPECT_LT(test, t->regain.usual_lost, USUAL(1));
}

/* One packet of 60, in each round trip: less than eight of what there was */
static void few_losses_become_usual(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int trips;

	for (trips = 0; trips < 30; trips++)
		KUNIT_EXPECT_FALSE(test, many_lost(t, 59, 1));
	KUNIT_EXPECT_FALSE(test, many_lost(t, 53, 8));
	KUNIT_EXPECT_TRUE(test, many_lost(t, 51, 9));
}

/* As TCP enters it from Loss: what was made of ssthresh is not known. */
static void many_losses_in_another_recovery(struct kunit *test)
{
	struct regain_test *t = test->priv;

	repair(t, 0, CARRIED);
	reduce(t, 0, ISCSIT_CAUSE_LOSS);
	trip(t, 0);
	t->tp.snd_ssthresh = 90;
	t->tp.prr_delivered = 0;
	t->tp.lost += 50;
	expect_trip(test, 0, 90);
	KUNIT_EXPECT_EQ(test, t->tp.prr_delivered, 0);
}

/* Though another loss follows in the same round trip */
static void many_losses_are_waited_for_once(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	repair(t, 0, CARRIED);
	t->tp.lost += 8;
	trip(t, 0);
	inet_csk(sk)->icsk_ca_state = TCP_CA_Open;
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	KUNIT_EXPECT_EQ(test, trips_until_more(t, 0, CARRIED), 33);
}

static void in_slow_start(struct kunit *test)
{
	struct regain_test *t = test->priv;

	set_window(t, 10);
	t->tp.snd_ssthresh = TCP_INFINITE_SSTHRESH;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, t->tp.snd_ssthresh, TCP_INFINITE_SSTHRESH);
}

static void three_quarters_of_the_longest_queue(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 4000);
	reduce(t, 3000, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 87);
	/* One at a loss counts as well. */
	reduce(t, 8000, ISCSIT_CAUSE_RECOVERY);
	trip(t, 0);
	reduce(t, 6000, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 87);
	reduce(t, 6001, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 70);
}

/* Which seems to be longer, as the other end holds back what it tells. */
static void no_queue_while_something_is_acknowledged_selectively(struct kunit *test)
{
	struct regain_test *t = test->priv;

	t->tp.sacked_out = 1;
	trip(t, 4000);
	t->tp.sacked_out = 0;
	reduce(t, 3000, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 70);
}

/* Nor a rate, but where losses are by chance */
static void no_rate_while_something_is_acknowledged_selectively(struct kunit *test)
{
	static const struct {
		u32 queue_us;
		u32 ssthresh;
	} cases[] = {
		{ MIN_RTT_US / 64 + 1, CARRIED },
		{ 0, CARRIED + 10 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		reduce(t, cases[i].queue_us, ISCSIT_CAUSE_RECOVERY);
		trip(t, 0);
		t->tp.sacked_out = 1;
		carry(t, CARRIED + 10);
		t->tp.sacked_out = 0;
		t->carries = CARRIED;
		pass_trips(t, 33);
		set_window(t, CARRIED - 5);
		expect_trip(test, 0, cases[i].ssthresh);
	}
}

static void a_queue_that_is_jitter(struct kunit *test)
{
	struct regain_test *t = test->priv;

	reduce(t, MIN_RTT_US / 64, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 87);
}

static void a_queue_that_overflowed(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	for (i = 0; i <= 32; i++)
		expect_trip(test, 0, 70);
	expect_trip(test, 0, 87);
}

static void a_mark(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 2000);
	reduce(t, 0, ISCSIT_CAUSE_CWR_ECN);
	expect_trip(test, 0, 70);
	reduce(t, 0, ISCSIT_CAUSE_CWR_LOCAL);
	expect_trip(test, 0, 70);
}

/* Of the loss that a tail loss probe repaired TCP enters CWR, too. */
static void a_tail_loss(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 2000);
	reduce(t, 0, ISCSIT_CAUSE_CWR_TLP);
	expect_trip(test, 0, 87);
}

/* As when the attribute was turned on in mid-connection */
static void a_loss_before_the_first_look(struct kunit *test)
{
	struct regain_test *t = test->priv;

	memset(&t->regain, 0, sizeof(t->regain));
	reduce(t, 10000, ISCSIT_CAUSE_RECOVERY);
	t->carries = 80;
	set_window(t, 90);
	trip(t, 0);
	set_window(t, 70);
	expect_trip(test, 0, 80);
}

/* Less than nine sixteenths of it until more is tried are what there is. */
static void less_since_a_queue_overflowed(struct kunit *test)
{
	static const struct {
		u32 at_first;
		u32 later;
		u32 cwnd;
		u32 ssthresh;
	} cases[] = {
		{ 57, 57, 50, 62 },
		{ 54, 54, 50, 54 },
		/* TCP may tell of what was before for two round trips. */
		{ CARRIED, 54, 50, 54 },
		{ 54, 70, 70, 87 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain, 0, sizeof(t->regain));
		carry(t, CARRIED);
		reduce(t, 8000, ISCSIT_CAUSE_CWR_ECN);
		set_window(t, CARRIED);
		t->carries = cases[i].at_first;
		pass_trips(t, 3);
		set_window(t, 70);
		t->carries = cases[i].later;
		pass_trips(t, 29);
		set_window(t, cases[i].cwnd);
		pass_trips(t, 1);
		set_window(t, cases[i].cwnd);
		expect_trip(test, 0, cases[i].ssthresh);
	}
}

/* But not yet where a loss by chance that follows a gain is not waited for. */
static void as_much_where_more_is_tried_at_once(struct kunit *test)
{
	struct regain_test *t = test->priv;

	reduce(t, 0, ISCSIT_CAUSE_CWR_ECN);
	pass_trips(t, 3);
	carry(t, 120);
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	t->carries = 50;
	trip(t, 0);
	set_window(t, 60);
	expect_trip(test, 0, 75);
}

/* Which tell nothing once the path has turned out to be longer: it holds more. */
static void as_much_since_a_path_became_longer(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	reduce(t, 8000, ISCSIT_CAUSE_CWR_ECN);
	t->carries = 50;
	t->tp.rate_interval_us = 4 * MIN_RTT_US;
	for (i = 0; i < 9; i++) {
		t->tp.packets_out = i < 5 ? 80 : 50;
		trip(t, 3 * MIN_RTT_US);
	}
	set_window(t, 2 * CARRIED);
	expect_trip(test, 3 * MIN_RTT_US, 2 * CARRIED + CARRIED / 2);
}

/* Four times as long, and as much is delivered: four times as much it holds */
static void a_path_that_became_longer(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	t->carries = 4 * CARRIED;
	t->tp.rate_interval_us = 4 * MIN_RTT_US;
	set_window(t, 4 * CARRIED);
	trip(t, 3 * MIN_RTT_US);
	set_window(t, 2 * CARRIED);
	for (i = 1; i < 48; i++)
		expect_trip(test, 3 * MIN_RTT_US, 2 * CARRIED);
	expect_trip(test, 3 * MIN_RTT_US, 2 * CARRIED + CARRIED / 2);

	/* Its queue is what is more than that. */
	trip(t, 3 * MIN_RTT_US + 4000);
	reduce(t, 3 * MIN_RTT_US + 3001, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 3 * MIN_RTT_US, 70);

	/* A shorter one is so at once. */
	t->tp.rate_interval_us = MIN_RTT_US;
	carry(t, CARRIED);
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 87);
}

/* Packets in flight, with a round trip of 80 ms and about, and ssthresh then */
struct less_trip {
	u32 pkts;
	s32 more_us;
	u32 ssthresh;
};

static void expect_less(struct kunit *test, const struct less_trip *trips,
			int n)
{
	struct regain_test *t = test->priv;
	int i;

	t->carries = 4 * CARRIED;
	t->tp.rate_interval_us = 4 * MIN_RTT_US;
	set_window(t, 4 * CARRIED);
	t->tp.packets_out = 80;
	trip(t, 3 * MIN_RTT_US);
	set_window(t, 2 * CARRIED);
	for (i = 0; i < n; i++) {
		t->tp.packets_out = trips[i].pkts;
		expect_trip(test, 3 * MIN_RTT_US + trips[i].more_us,
			    trips[i].ssthresh);
	}
}

static void a_queue_that_less_leaves_as_it_is(struct kunit *test)
{
	static const struct less_trip trips[] = {
		{ 80, 0, 2 * CARRIED },
		{ 60, 0, 2 * CARRIED },
		{ 60, 0, 2 * CARRIED },
		{ 60, 0, 2 * CARRIED },
		/* Now less, but then the queue is shorter. */
		{ 59, 0, 2 * CARRIED },
		{ 59, -1300, 2 * CARRIED },
		{ 59, -1300, 2 * CARRIED },
		{ 59, -1300, 2 * CARRIED },
		{ 41, -1300, 2 * CARRIED },
		{ 41, -100, 2 * CARRIED },
		/* Now it is not, for more than two round trips. */
		{ 41, -100, 2 * CARRIED + CARRIED / 2 },
	};

	expect_less(test, trips, ARRAY_SIZE(trips));
}

/* As less is sent its last packet may be; a queue that stays longer is not. */
static void a_queue_that_is_longer_for_a_late_ack(struct kunit *test)
{
	static const struct less_trip trips[] = {
		{ 59, -1300, 2 * CARRIED },
		{ 59, -1300, 2 * CARRIED },
		{ 41, 100, 2 * CARRIED },
		{ 41, 100, 2 * CARRIED },
		{ 41, -100, 2 * CARRIED },
		/* For one round trip, and as it was in those after it */
		{ 29, 1500, 2 * CARRIED },
		{ 29, -100, 2 * CARRIED },
		{ 29, -100, 2 * CARRIED + CARRIED / 2 },
	};

	expect_less(test, trips, ARRAY_SIZE(trips));
}

/* It holds more; and after the next overflow it takes twice as long again. */
static void no_wait_where_a_queue_was_a_longer_path(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < 40; i++)
		trip(t, 3 * MIN_RTT_US);
	reduce(t, 3 * MIN_RTT_US, ISCSIT_CAUSE_RECOVERY);
	KUNIT_EXPECT_EQ(test, trips_until_more(t, 3 * MIN_RTT_US, 70), 9);

	reduce(t, 4 * MIN_RTT_US, ISCSIT_CAUSE_RECOVERY);
	KUNIT_EXPECT_EQ(test, trips_until_more(t, 3 * MIN_RTT_US, 300), 66);
}

/* Others may fill it. */
static void a_queue_that_a_reduction_leaves_as_it_is(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	t->tp.packets_out = CARRIED;
	trip(t, MIN_RTT_US);
	reduce(t, MIN_RTT_US, ISCSIT_CAUSE_RECOVERY);
	t->tp.packets_out = CARRIED / 2;
	for (i = 1; i < 32; i++)
		expect_trip(test, MIN_RTT_US, 70);
}

static void a_rate_of_long_ago(struct kunit *test)
{
	struct regain_test *t = test->priv;

	t->carries = 50;
	t->tp.is_cwnd_limited = false;
	pass_trips(t, 96);
	set_window(t, 40);
	expect_trip(test, 0, 50);
}

static void more_than_it_has_carried(struct kunit *test)
{
	struct regain_test *t = test->priv;

	expect_trip(test, 0, CARRIED + CARRIED / 16);

	/* Once in a round trip */
	set_window(t, CARRIED);
	iscsit_regain_look(&t->regain, &t->tcp, (struct sock *)&t->tp);
	expect_ssthresh(test, CARRIED);

	t->tp.is_cwnd_limited = false;
	expect_trip(test, 0, CARRIED);
}

/* cwnd may be a quarter more than was carried. */
static void much_more_where_slow_start_was_interrupted(struct kunit *test)
{
	static const struct {
		bool starting;
		u32 reduced_queue_us;
		u32 queue_us;
		u32 cwnd;
		u32 ssthresh;
	} cases[] = {
		{ true, 0, 0, CARRIED, 150 },
		{ true, 0, 0, 122, 183 },
		{ true, 0, 0, 126, 133 },
		/* The next one does not change that. */
		{ false, 0, 0, CARRIED, 150 },
		/* A queue does, then or later, and for good. */
		{ true, MIN_RTT_US / 64 + 1, 0, CARRIED, 106 },
		{ true, 0, MIN_RTT_US / 8 + 1, CARRIED, 106 },
		{ false, 0, 0, CARRIED, 106 },
		/* A quarter more, and one, as a rate is rounded down */
		{ true, 0, 0, 124, 186 },
		{ true, 0, 0, 125, 132 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		set_window(t, CARRIED);
		if (cases[i].starting)
			t->tp.snd_ssthresh = TCP_INFINITE_SSTHRESH;
		trip(t, 0);
		reduce(t, cases[i].reduced_queue_us, ISCSIT_CAUSE_RECOVERY);
		trip(t, cases[i].queue_us);
		pass_trips(t, 40);
		set_window(t, cases[i].cwnd);
		expect_trip(test, 0, cases[i].ssthresh);
	}
}

/* After many losses, which have not been all that the path carries */
static void much_more_where_half_more_is_carried(struct kunit *test)
{
	struct regain_test *t = test->priv;
	u32 pkts;

	t->tp.lost += 8;
	trip(t, 0);
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	iscsit_regain_recovery(&t->regain, &t->tcp, (struct sock *)&t->tp);
	for (pkts = CARRIED + CARRIED / 2; pkts <= CARRIED + CARRIED / 2 + 1;
	     pkts++) {
		carry(t, pkts);
		reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
		trip(t, 0);
		set_window(t, pkts);
		expect_trip(test, 0, pkts == CARRIED + CARRIED / 2 ?
				     pkts + pkts / 16 : pkts + pkts / 2);
	}
}

/* At a queue as well where no more than an initial window was carried */
static void much_more_where_a_login_was_interrupted(struct kunit *test)
{
	static const struct {
		u32 prior_cwnd;
		u32 reduced_queue_us;
		u32 carries;
		u32 ssthresh;
	} cases[] = {
		{ CARRIED, 0, TCP_INIT_CWND + 1, 16 },
		/* A rate is rounded down. */
		{ CARRIED, 0, TCP_INIT_CWND + 2, 13 },
		/* So was one that lost some of an initial window at a queue. */
		{ TCP_INIT_CWND, MIN_RTT_US / 2, TCP_INIT_CWND + 1, 16 },
		{ TCP_INIT_CWND + 1, MIN_RTT_US / 2, TCP_INIT_CWND + 1, 12 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain, 0, sizeof(t->regain));
		t->carries = cases[i].carries;
		set_window(t, cases[i].prior_cwnd);
		t->tp.snd_ssthresh = TCP_INFINITE_SSTHRESH;
		trip(t, 0);
		reduce(t, cases[i].reduced_queue_us, ISCSIT_CAUSE_LOSS);
		trip(t, MIN_RTT_US / 8 + 1);
		pass_trips(t, 40);
		set_window(t, t->carries);
		expect_trip(test, 0, cases[i].ssthresh);
	}
}

/* At such a queue, and one that was before the first look */
static void much_more_where_few_packets_have_been_left(struct kunit *test)
{
	static const struct {
		u32 left;
		u32 delivered;
		u32 ssthresh;
	} cases[] = {
		{ 4, 0, 6 },
		{ TCP_INIT_CWND, 64, 15 },
		{ TCP_INIT_CWND + 1, 0, TCP_INIT_CWND + 1 },
		/* That was no login. */
		{ TCP_INIT_CWND, 65, TCP_INIT_CWND },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain, 0, sizeof(t->regain));
		t->carries = cases[i].left;
		t->tp.delivered = cases[i].delivered - CARRIED;
		set_window(t, cases[i].left);
		trip(t, 0);
		set_window(t, cases[i].left);
		expect_trip(test, MIN_RTT_US / 8 + 1, cases[i].ssthresh);
	}
}

/* Until more has been delivered than a login */
static void much_more_where_a_login_was_interrupted_twice(struct kunit *test)
{
	static const struct {
		u32 delivered;
		u32 ssthresh;
	} cases[] = {
		{ 64, 15 },
		{ 65, TCP_INIT_CWND },
	};
	struct regain_test *t = test->priv;
	int i;

	t->carries = TCP_INIT_CWND;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain, 0, sizeof(t->regain));
		t->tp.delivered = -CARRIED;
		set_window(t, TCP_INIT_CWND);
		trip(t, 0);
		t->tp.delivered = cases[i].delivered - CARRIED;
		reduce(t, MIN_RTT_US / 2, ISCSIT_CAUSE_CWR_TLP);
		trip(t, 0);
		set_window(t, TCP_INIT_CWND);
		expect_trip(test, 0, cases[i].ssthresh);
	}
}

/* Those from a reduction at such a queue on */
static int waits_at(struct regain_test *t, u32 queue_us,
		    enum iscsit_cause cause, u32 cwnd)
{
	reduce(t, queue_us, cause);
	trip(t, 0);
	return trips_until_more(t, 0, cwnd);
}

/* Those with such a queue after a loss by chance */
static int waits_with(struct regain_test *t, u32 queue_us)
{
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	trip(t, 0);
	return trips_until_more(t, queue_us, CARRIED);
}

/* And at none */
static int waits(struct regain_test *t, enum iscsit_cause cause, u32 cwnd)
{
	return waits_at(t, 0, cause, cwnd);
}

static void longer_waits_without_gain(struct kunit *test)
{
	static const int expected[] = { 33, 65, 129, 257, 257 };
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(expected); i++)
		KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_CWR_ECN, CARRIED),
				expected[i]);

	/* More by a sixteenth, and 70 is no less than five eighths of it. */
	carry(t, 112);
	KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_CWR_ECN, 112), 33);
}

/* Though it has not overflowed: what was carried is regained at once. */
static void long_ones_after_a_loss_at_a_queue(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 8000);
	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 87);
	KUNIT_EXPECT_EQ(test, trips_until_more(t, 0, CARRIED), 33);
	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	expect_trip(test, 0, 87);
	KUNIT_EXPECT_EQ(test, trips_until_more(t, 0, CARRIED), 65);
}

/* Which have no part in those after a loss at a queue */
static void none_after_a_loss_by_chance(struct kunit *test)
{
	struct regain_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_RECOVERY, CARRIED), 1);
	KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_CWR_ECN, CARRIED), 33);
	KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_RECOVERY, CARRIED), 1);
	KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_CWR_ECN, CARRIED), 65);

	/* Which go on, with a queue. */
	reduce(t, 0, ISCSIT_CAUSE_CWR_ECN);
	pass_trips(t, 90);
	KUNIT_EXPECT_EQ(test, waits_with(t, MIN_RTT_US / 64 + 1), 39);
}

/* What half of the queue holds that overflowed, while it waits for more */
static void a_little_after_a_loss_by_chance(struct kunit *test)
{
	static const struct {
		u32 overflowed_us;
		u32 ssthresh;
	} cases[] = {
		/* All that is tried, where that has carried more than before */
		{ 1000, 106 },
		{ 1000, 102 },
		{ 2000, 105 },
		/* No more than that, and a packet at least */
		{ 8000, 106 },
		{ MIN_RTT_US / 64 + 1, 101 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain.queue_us, 0, sizeof(t->regain.queue_us));
		reduce(t, cases[i].overflowed_us, ISCSIT_CAUSE_RECOVERY);
		trip(t, 0);
		reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
		KUNIT_EXPECT_EQ(test, trips_until_more(t, 0, CARRIED), 9);
		expect_ssthresh(test, cases[i].ssthresh);
		/* No more until that is delivered */
		set_window(t, cases[i].ssthresh);
		expect_trip(test, 0, cases[i].ssthresh);
	}
}

/* Also while a loss is repaired, beyond what was carried */
static void a_little_while_a_loss_by_chance_is_repaired(struct kunit *test)
{
	static const struct {
		int trips;
		u32 queue_us;
		u32 ssthresh;
	} cases[] = {
		{ 8, 0, CARRIED },
		{ 9, 0, 102 },
		{ 9, MIN_RTT_US / 64 + 1, CARRIED },
	};
	struct regain_test *t;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		regain_test_init(test);
		t = test->priv;
		reduce(t, 1000, ISCSIT_CAUSE_RECOVERY);
		trip(t, 0);
		reduce(t, 1000, ISCSIT_CAUSE_RECOVERY);
		pass_trips(t, cases[i].trips - 1);
		repair(t, 0, CARRIED);
		set_window(t, CARRIED - 1);
		t->tp.delivered += 200;
		expect_trip(test, cases[i].queue_us, cases[i].ssthresh);
	}
}

/* By a sixteenth; but what others leave may be as much. */
static void none_on_a_path_that_loses_and_has_become_faster(struct kunit *test)
{
	static const struct {
		enum iscsit_cause cause;
		u32 carries;
		int trips;
	} cases[] = {
		{ ISCSIT_CAUSE_RECOVERY, 106, 7 },
		{ ISCSIT_CAUSE_RECOVERY, 107, 1 },
		{ ISCSIT_CAUSE_CWR_ECN, 120, 64 },
	};
	struct regain_test *t;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		regain_test_init(test);
		t = test->priv;
		reduce(t, 1000, ISCSIT_CAUSE_RECOVERY);
		trip(t, 0);
		reduce(t, 0, cases[i].cause);
		trip(t, 0);
		carry(t, cases[i].carries);
		KUNIT_EXPECT_EQ_MSG(test, trips_until_more(t, 0, t->carries),
				    cases[i].trips, "%d", i);
	}
}

/* What comes behind a loss takes room in it until that is repaired. */
static void a_send_buffer_of_four_cwnd(struct kunit *test)
{
	static const struct {
		u32 queue_us;
		u32 cwnd;
		u32 ssthresh;
		u32 prior_cwnd;
		u32 pkts;
	} cases[] = {
		{ 0, 100, 80, 90, 100 },
		{ 0, 60, 80, 90, 80 },
		{ 0, 60, TCP_INFINITE_SSTHRESH, 90, 90 },
		/* No chance */
		{ 2000, 100, 80, 90, 0 },
	};
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	int each = 4 * SKB_TRUESIZE(t->tp.mss_cache + MAX_TCP_HEADER);
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		sk->sk_sndbuf = 1;
		reduce(t, cases[i].queue_us, ISCSIT_CAUSE_RECOVERY);
		t->tp.prior_cwnd = cases[i].prior_cwnd;
		t->tp.snd_cwnd = cases[i].cwnd;
		t->tp.snd_ssthresh = cases[i].ssthresh;
		trip(t, 0);
		KUNIT_EXPECT_EQ_MSG(test, sk->sk_sndbuf,
				    max_t(u32, cases[i].pkts * each, 1), "%d",
				    i);
	}

	/* No smaller one, none that was set, and no larger one than may be. */
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	sk->sk_sndbuf = 100 * each + 1;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_sndbuf, 100 * each + 1);
	sk->sk_sndbuf = 1;
	sk->sk_userlocks = SOCK_SNDBUF_LOCK;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_sndbuf, 1);
	sk->sk_userlocks = 0;
	t->tp.snd_cwnd = 1 << 20;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_sndbuf,
			init_net.ipv4.sysctl_tcp_wmem[2]);
}

/* A path that loses by itself does so at any queue, one that overflows is full. */
static void none_after_another_at_a_queue_that_holds_more(struct kunit *test)
{
	static const struct {
		u32 longest_us;
		u32 queue_us;
		int trips;
	} cases[] = {
		{ 1600, 0, 1 },
		{ 1600, 1200, 1 },
		{ 1600, 1201, 33 },
		/* Nor another after that, */
		{ 1600, 1200, 65 },
		{ 8000, 0, 1 },
		/* nor where all that is tried makes less. */
		{ 8000, MIN_RTT_US / 16, 1 },
		{ 8000, MIN_RTT_US / 16 + 1, 129 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		trip(t, cases[i].longest_us);
		pass_trips(t, 64);
		KUNIT_EXPECT_EQ(test, waits_at(t, cases[i].queue_us,
					       ISCSIT_CAUSE_RECOVERY, CARRIED),
				cases[i].trips);
	}

	/* Nor long after. */
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	pass_trips(t, 250);
	trip(t, 8000);
	KUNIT_EXPECT_EQ(test, waits_at(t, 1000, ISCSIT_CAUSE_RECOVERY, CARRIED),
			1);
	pass_trips(t, 255);
	trip(t, 8000);
	KUNIT_EXPECT_EQ(test, waits_at(t, 1000, ISCSIT_CAUSE_RECOVERY, CARRIED),
			257);
}

/* A queue that is no more than jitter is none. */
static void long_ones_with_a_queue_after_a_loss_by_chance(struct kunit *test)
{
	struct regain_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, waits_with(t, MIN_RTT_US / 64), 1);
	KUNIT_EXPECT_EQ(test, waits_with(t, MIN_RTT_US / 64 + 1), 33);
}

/* 70 packets are left of what was carried before the latest 48 round trips. */
static void short_ones_where_others_took_the_path(struct kunit *test)
{
	static const struct {
		u32 carries;
		int at_once;
		int later;
	} cases[] = {
		{ 112, 33, 65 },
		/* 70 is less than five eighths of that. */
		{ 124, 9, 9 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		carry(t, cases[i].carries);
		KUNIT_EXPECT_EQ(test,
				waits(t, ISCSIT_CAUSE_CWR_ECN, t->carries),
				cases[i].at_once);
		t->carries = CARRIED;
		pass_trips(t, 96);
		KUNIT_EXPECT_EQ(test, waits(t, ISCSIT_CAUSE_CWR_ECN, CARRIED),
				cases[i].later);
		pass_trips(t, 512);
	}
}

static void pacing(struct kunit *test)
{
	static const struct {
		u32 reduced_queue_us;
		u32 queue_us;
		u32 cwnd;
		u32 ssthresh;
		u32 pkts;	/* in 20 ms; 0: without a bound */
	} cases[] = {
		/* What has been carried, and a sixteenth */
		{ 0, 0, 70, 70, 106 },
		{ 0, 0, 70, 100, 106 },
		{ 3000, 0, 70, 70, 106 },
		/* Also where cwnd is more, after an overflow */
		{ 3000, 0, 150, 150, 106 },
		{ 6000, 2500, 150, 150, 106 },
		/* No less than cwnd in a round trip, where srtt shows one */
		{ 6000, 5000, 150, 150, 120 },
		{ 0, 0, 106, 106, 106 },
		{ 0, 0, 107, 107, 0 },
		/* Slow start beyond that, and the first one */
		{ 3000, 0, 150, 200, 0 },
		{ 3000, 0, 70, TCP_INFINITE_SSTHRESH, 0 },
	};
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&t->regain.queue_us, 0, sizeof(t->regain.queue_us));
		reduce(t, cases[i].reduced_queue_us, ISCSIT_CAUSE_RECOVERY);
		t->tp.snd_cwnd = cases[i].cwnd;
		t->tp.snd_ssthresh = cases[i].ssthresh;
		trip(t, cases[i].queue_us);
		expect_bound(test, cases[i].pkts, 12500);
	}

	/* With the headers that fq counts */
	sk->sk_pacing_status = SK_PACING_FQ;
	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	trip(t, 0);
	KUNIT_EXPECT_GE(test, sk->sk_max_pacing_rate, 106 * 55000ul);
}

/* In the round trip after it is: 144 packets of what was not carried, and nine */
static void pacing_while_a_sixteenth_more_is_tried(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	/* Where nothing has overflowed none is known to be too short */
	pass_trips(t, 40);
	set_window(t, 144);
	expect_trip(test, 0, 153);
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	expect_bound(test, 0, 0);

	t->regain.queued_rate = minmax_get(&t->regain.rate);
	set_window(t, 104);
	expect_trip(test, 0, 110);
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	expect_bound(test, 106, 12500);
	set_window(t, 144);
	expect_trip(test, 0, 153);
	expect_bound(test, 0, 0);
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	expect_bound(test, 153, 12500);
	/* As well when slow start has gone as far */
	set_window(t, 153);
	t->tp.is_cwnd_limited = false;
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	expect_bound(test, 162, 50000);
	trip(t, 0);
	expect_bound(test, 0, 0);

	/* But after a reduction by chance, or half more */
	t->tp.is_cwnd_limited = true;
	t->regain.chance = true;
	set_window(t, 144);
	expect_trip(test, 0, 153);
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	expect_bound(test, 0, 0);
	t->regain.chance = false;
	t->regain.interrupted = true;
	set_window(t, 120);
	expect_trip(test, 0, 180);
	iscsit_regain_look(&t->regain, &t->tcp, sk);
	expect_bound(test, 0, 0);
}

/* Of 1 ms, half of which is a fortieth of the round trip */
static void pacing_by_a_queue_at_which_nothing_is_gained(struct kunit *test)
{
	static const struct {
		u32 carries;
		u32 queue_us;
		u32 pkts;
	} cases[] = {
		{ CARRIED, 1000, 106 },
		{ CARRIED, 1000, 102 },
		/* By chance, both */
		{ CARRIED, 0, 102 },
		{ CARRIED, MIN_RTT_US / 64 + 1, 102 },
		/* Not by chance, and no less than jitter */
		{ CARRIED, 1000, 102 },
		{ CARRIED, MIN_RTT_US / 64 + 1, 100 },
		{ 112, 1000, 119 },
		{ 112, 1000, 114 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		carry(t, cases[i].carries);
		reduce(t, cases[i].queue_us, ISCSIT_CAUSE_RECOVERY);
		trip(t, 0);
		expect_bound(test, cases[i].pkts, 50000);
	}
}

/* By which ssthresh is raised no more */
static void pacing_by_a_rate_of_longer_ago(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	t->carries = 50;
	t->tp.is_cwnd_limited = false;
	pass_trips(t, 200);
	set_window(t, 45);
	expect_trip(test, 0, 50);
	expect_pacing(test, 105 * 50000ul, 107 * 50000ul);

	pass_trips(t, 512);
	KUNIT_EXPECT_LE(test, sk->sk_max_pacing_rate, 54 * 50000ul);
}

/* None is known, and cwnd is 70. */
static void pacing_by_no_less_than_half_of_cwnd(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	memset(&t->regain, 0, sizeof(t->regain));
	sk->sk_max_pacing_rate = ~0UL;
	t->tp.rate_interval_us = 0;
	trip(t, 0);
	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	trip(t, 0);
	expect_pacing(test, 34 * 50000ul, 35 * 50000ul);
}

static void pacing_until_more_may_be_tried(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;
	int i;

	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	set_window(t, 150);
	for (i = 0; i <= 32; i++) {
		trip(t, 0);
		KUNIT_EXPECT_NE(test, sk->sk_max_pacing_rate, ~0UL);
	}
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, ~0UL);
}

/* Of a cwnd of 150, which is more than was carried, by more than a sixteenth */
static void pacing_by_what_is_advertised(struct kunit *test)
{
	static const struct {
		bool overflow;
		u32 wnd_bytes;
		u32 ssthresh;
		u32 pkts;	/* in 20 ms; 0: without a bound */
	} cases[] = {
		{ false, 20000, 150, 106 },
		{ false, 100000, 150, 106 },
		{ false, 139001, 150, 148 },
		{ false, 140000, 150, 148 },
		{ false, 140000, 200, 148 },
		{ false, 149000, 150, 158 },
		{ false, 149001, 150, 0 },
		{ true, 100000, 150, 106 },
		/* More is not tried yet. */
		{ false, 140000, 150, 140 },
	};
	struct regain_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cases[i].overflow)
			reduce(t, 3000, ISCSIT_CAUSE_RECOVERY);
		t->tp.snd_wnd = cases[i].wnd_bytes;
		t->tp.snd_cwnd = 150;
		t->tp.snd_ssthresh = cases[i].ssthresh;
		trip(t, 0);
		expect_bound(test, cases[i].pkts, 50000);
	}
}

/* While no rate is known either */
static void no_pacing_by_a_closed_window(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	memset(&t->regain, 0, sizeof(t->regain));
	sk->sk_max_pacing_rate = ~0UL;
	t->tp.snd_wnd = 0;
	t->tp.rate_interval_us = 0;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, ~0UL);
}

/* While no PDU is sent: again where losses are by chance */
static void as_long_as_something_is_to_be_sent(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	reduce(t, 0, ISCSIT_CAUSE_RECOVERY);
	trip(t, 0);
	set_window(t, 40);
	KUNIT_EXPECT_FALSE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							  sk));
	expect_ssthresh(test, 40);
	t->tp.write_seq++;
	KUNIT_EXPECT_TRUE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							 sk));
	expect_ssthresh(test, 50);

	reduce(t, MIN_RTT_US / 64 + 1, ISCSIT_CAUSE_RECOVERY);
	KUNIT_EXPECT_FALSE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							  sk));
	/* Once while others are repaired, and then for what is left of them */
	t->tp.lost_out = 1;
	t->tp.lost++;
	t->tp.packets_out = CARRIED;
	enter_recovery(t, MIN_RTT_US / 64 + 1, CARRIED);
	set_window(t, 20);
	t->tp.write_seq = t->tp.snd_nxt + 1;
	KUNIT_EXPECT_TRUE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							 sk));
	expect_ssthresh(test, 70);
	set_window(t, 20);
	KUNIT_EXPECT_TRUE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							 sk));
	expect_ssthresh(test, 20);
	/* Also with nothing to be sent */
	repair(t, MIN_RTT_US / 64 + 1, CARRIED);
	t->tp.write_seq = t->tp.snd_nxt;
	t->tp.delivered -= CARRIED;
	t->tp.lost += 50;
	KUNIT_EXPECT_TRUE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							 sk));
	expect_ssthresh(test, 50);
	t->regain.chance = true;
	KUNIT_EXPECT_FALSE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							  sk));
	t->regain.chance = false;
	inet_csk(sk)->icsk_ca_state = TCP_CA_Open;
	KUNIT_EXPECT_FALSE(test, iscsit_regain_look_again(&t->regain, &t->tcp,
							  sk));
}

static void pacing_that_is_bounded_by_others(struct kunit *test)
{
	struct regain_test *t = test->priv;
	struct sock *sk = (struct sock *)&t->tp;

	set_window(t, 70);
	sk->sk_max_pacing_rate = 12345;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, 12345);
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, 12345);
	iscsit_regain_bound_pacing(&t->regain, sk, ~0UL);
	KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, 12345);

	/* No more */
	sk->sk_max_pacing_rate = ~0UL;
	trip(t, 0);
	KUNIT_EXPECT_NE(test, sk->sk_max_pacing_rate, ~0UL);
	iscsit_regain_bound_pacing(&t->regain, sk, ~0UL);
	KUNIT_EXPECT_EQ(test, sk->sk_max_pacing_rate, ~0UL);
}

static struct kunit_case regain_test_cases[] = {
	KUNIT_CASE(a_loss_by_chance),
	KUNIT_CASE(as_recovery_begins),
	KUNIT_CASE(as_much_as_is_missing_as_recovery_begins),
	KUNIT_CASE(after_recovery_has_begun_at_a_queue),
	KUNIT_CASE(while_reduced_and_with_a_queue),
	KUNIT_CASE(while_losses_by_chance_are_repaired),
	KUNIT_CASE(no_more_than_is_not_lost),
	KUNIT_CASE(less_as_more_is_lost),
	KUNIT_CASE(little_is_lost_of_many_packets),
	KUNIT_CASE(after_what_is_not_lost),
	KUNIT_CASE(no_less_than_as_recovery_began),
	KUNIT_CASE(nothing_more_while_other_losses_are_repaired),
	KUNIT_CASE(many_losses_are_no_chance),
	KUNIT_CASE(many_losses_are_more_than_is_usual),
	KUNIT_CASE(many_losses_become_not_usual),
	KUNIT_CASE(few_losses_become_usual),
	KUNIT_CASE(many_losses_in_another_recovery),
	KUNIT_CASE(many_losses_are_waited_for_once),
	KUNIT_CASE(in_slow_start),
	KUNIT_CASE(as_long_as_something_is_to_be_sent),
	KUNIT_CASE(three_quarters_of_the_longest_queue),
	KUNIT_CASE(no_queue_while_something_is_acknowledged_selectively),
	KUNIT_CASE(no_rate_while_something_is_acknowledged_selectively),
	KUNIT_CASE(a_queue_that_is_jitter),
	KUNIT_CASE(a_queue_that_overflowed),
	KUNIT_CASE(a_mark),
	KUNIT_CASE(a_tail_loss),
	KUNIT_CASE(a_loss_before_the_first_look),
	KUNIT_CASE(less_since_a_queue_overflowed),
	KUNIT_CASE(as_much_where_more_is_tried_at_once),
	KUNIT_CASE(as_much_since_a_path_became_longer),
	KUNIT_CASE(a_path_that_became_longer),
	KUNIT_CASE(a_queue_that_less_leaves_as_it_is),
	KUNIT_CASE(a_queue_that_is_longer_for_a_late_ack),
	KUNIT_CASE(no_wait_where_a_queue_was_a_longer_path),
	KUNIT_CASE(a_queue_that_a_reduction_leaves_as_it_is),
	KUNIT_CASE(a_rate_of_long_ago),
	KUNIT_CASE(more_than_it_has_carried),
	KUNIT_CASE(much_more_where_slow_start_was_interrupted),
	KUNIT_CASE(much_more_where_half_more_is_carried),
	KUNIT_CASE(much_more_where_a_login_was_interrupted),
	KUNIT_CASE(much_more_where_few_packets_have_been_left),
	KUNIT_CASE(much_more_where_a_login_was_interrupted_twice),
	KUNIT_CASE(longer_waits_without_gain),
	KUNIT_CASE(long_ones_after_a_loss_at_a_queue),
	KUNIT_CASE(none_after_a_loss_by_chance),
	KUNIT_CASE(a_little_after_a_loss_by_chance),
	KUNIT_CASE(a_little_while_a_loss_by_chance_is_repaired),
	KUNIT_CASE(none_on_a_path_that_loses_and_has_become_faster),
	KUNIT_CASE(none_after_another_at_a_queue_that_holds_more),
	KUNIT_CASE(long_ones_with_a_queue_after_a_loss_by_chance),
	KUNIT_CASE(short_ones_where_others_took_the_path),
	KUNIT_CASE(a_send_buffer_of_four_cwnd),
	KUNIT_CASE(pacing),
	KUNIT_CASE(pacing_while_a_sixteenth_more_is_tried),
	KUNIT_CASE(pacing_by_a_queue_at_which_nothing_is_gained),
	KUNIT_CASE(pacing_by_a_rate_of_longer_ago),
	KUNIT_CASE(pacing_by_no_less_than_half_of_cwnd),
	KUNIT_CASE(pacing_until_more_may_be_tried),
	KUNIT_CASE(pacing_by_what_is_advertised),
	KUNIT_CASE(no_pacing_by_a_closed_window),
	KUNIT_CASE(pacing_that_is_bounded_by_others),
	{}
};

static struct kunit_suite regain_test_suite = {
	.name = "iscsit_regain",
	.init = regain_test_init,
	.test_cases = regain_test_cases,
};

kunit_test_suite(regain_test_suite);

MODULE_DESCRIPTION("KUnit tests of the congestion window that is regained");
MODULE_INFO(import_ns, "EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
