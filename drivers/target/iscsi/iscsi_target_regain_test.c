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

#define MIN_RTT_US	20000
#define CARRIED		100

struct regain_test {
	struct iscsit_regain regain;
	struct tcp_sock tp;
	u32 carries;
};

/* Each round trip is 100 packets of 1000 bytes. */
static void trip(struct regain_test *t, u32 queue_us)
{
	t->tp.srtt_us = (MIN_RTT_US + queue_us) << 3;
	t->tp.rate_delivered = min(t->tp.snd_cwnd, t->carries);
	t->tp.snd_una = t->tp.snd_nxt;
	t->tp.snd_nxt += CARRIED * 1000;
	iscsit_regain_ssthresh(&t->regain, (struct sock *)&t->tp);
}

static void set_window(struct regain_test *t, u32 cwnd)
{
	t->tp.snd_cwnd = cwnd;
	t->tp.snd_ssthresh = cwnd;
}

/* A reduction to 70 packets at such a queue, which is gone afterwards */
static void reduce(struct regain_test *t, u32 queue_us)
{
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_Recovery;
	trip(t, queue_us);
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_Open;
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
	minmax_reset(&t->tp.rtt_min, 0, MIN_RTT_US);
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

static void a_loss_by_chance(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 2000);
	reduce(t, 0);
	trip(t, 0);
	expect_ssthresh(test, CARRIED);
}

static void while_reduced_and_with_a_queue(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 20000);
	reduce(t, 0);
	expect_ssthresh(test, 70);
	trip(t, MIN_RTT_US / 8 + 1);
	expect_ssthresh(test, 70);
	trip(t, MIN_RTT_US / 8);
	expect_ssthresh(test, CARRIED);
}

static void in_slow_start(struct kunit *test)
{
	struct regain_test *t = test->priv;

	set_window(t, 10);
	t->tp.snd_ssthresh = TCP_INFINITE_SSTHRESH;
	trip(t, 0);
	KUNIT_EXPECT_EQ(test, t->tp.snd_ssthresh, TCP_INFINITE_SSTHRESH);
}

static void half_of_the_longest_queue(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 4000);
	reduce(t, 2000);
	trip(t, 0);
	expect_ssthresh(test, CARRIED);
	reduce(t, 2001);
	trip(t, 0);
	expect_ssthresh(test, 70);
}

static void a_queue_that_is_jitter(struct kunit *test)
{
	struct regain_test *t = test->priv;

	reduce(t, MIN_RTT_US / 16);
	trip(t, 0);
	expect_ssthresh(test, CARRIED);
}

static void a_queue_that_overflowed(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	reduce(t, MIN_RTT_US / 16 + 1);
	for (i = 0; i < 32; i++)
		trip(t, 0);
	expect_ssthresh(test, 70);
	trip(t, 0);
	expect_ssthresh(test, CARRIED);
}

static void a_mark(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 2000);
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_CWR;
	trip(t, 0);
	inet_csk((struct sock *)&t->tp)->icsk_ca_state = TCP_CA_Open;
	set_window(t, 70);
	trip(t, 0);
	expect_ssthresh(test, 70);
}

/* A reduction that ended before the next look */
static void a_loss_that_was_not_seen(struct kunit *test)
{
	struct regain_test *t = test->priv;

	set_window(t, 70);
	t->tp.lost++;
	trip(t, 2000);
	trip(t, 0);
	expect_ssthresh(test, 70);
}

static void a_rate_of_long_ago(struct kunit *test)
{
	struct regain_test *t = test->priv;
	int i;

	t->carries = 50;
	t->tp.is_cwnd_limited = false;
	for (i = 0; i < 96; i++)
		trip(t, 0);
	set_window(t, 40);
	trip(t, 0);
	expect_ssthresh(test, 50);
}

static void more_than_it_has_carried(struct kunit *test)
{
	struct regain_test *t = test->priv;

	trip(t, 0);
	expect_ssthresh(test, CARRIED + CARRIED / 8);

	/* Once in a round trip */
	set_window(t, CARRIED);
	iscsit_regain_ssthresh(&t->regain, (struct sock *)&t->tp);
	expect_ssthresh(test, CARRIED);

	t->tp.is_cwnd_limited = false;
	trip(t, 0);
	expect_ssthresh(test, CARRIED);
}

/* Round trips from a reduction until more than this is tried */
static int waits(struct regain_test *t, u32 cwnd)
{
	int trips = 0;

	reduce(t, 0);
	set_window(t, cwnd);
	while (t->tp.snd_ssthresh <= cwnd && trips < 1000) {
		trip(t, 0);
		trips++;
	}
	return trips;
}

static void longer_waits_without_gain(struct kunit *test)
{
	struct regain_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, waits(t, CARRIED), 33);
	KUNIT_EXPECT_EQ(test, waits(t, CARRIED), 65);
	KUNIT_EXPECT_EQ(test, waits(t, CARRIED), 129);
	KUNIT_EXPECT_EQ(test, waits(t, CARRIED), 257);
	KUNIT_EXPECT_EQ(test, waits(t, CARRIED), 257);

	t->carries = 2 * CARRIED;
	set_window(t, 2 * CARRIED);
	KUNIT_EXPECT_EQ(test, waits(t, 2 * CARRIED), 33);
}

static struct kunit_case regain_test_cases[] = {
	KUNIT_CASE(a_loss_by_chance),
	KUNIT_CASE(while_reduced_and_with_a_queue),
	KUNIT_CASE(in_slow_start),
	KUNIT_CASE(half_of_the_longest_queue),
	KUNIT_CASE(a_queue_that_is_jitter),
	KUNIT_CASE(a_queue_that_overflowed),
	KUNIT_CASE(a_mark),
	KUNIT_CASE(a_loss_that_was_not_seen),
	KUNIT_CASE(a_rate_of_long_ago),
	KUNIT_CASE(more_than_it_has_carried),
	KUNIT_CASE(longer_waits_without_gain),
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
