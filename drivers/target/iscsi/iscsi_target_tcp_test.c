// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests: the causes of a reduced congestion window are told apart.
 *
 * A test plays the steps that net/ipv4 takes on a socket that is not connected
 * to anything, and looks at the counts.
 */

#include <kunit/test.h>
#include <linux/module.h>
#include <net/tcp.h>

#include "iscsi_target_tcp.h"

struct tcp_test {
	struct iscsit_tcp tcp;
	struct tcp_sock tp;
};

static int tcp_test_init(struct kunit *test)
{
	struct tcp_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	if (!t)
		return -ENOMEM;
	t->tcp.net = &init_net;
	INIT_KFIFO(t->tcp.events);
	t->tp.snd_cwnd = 100;
	test->priv = t;
	return 0;
}

static void set_state(struct tcp_test *t, u8 state)
{
	struct sock *sk = (struct sock *)&t->tp;

	iscsit_tcp_transition(&t->tcp, sk, state);
	inet_csk(sk)->icsk_ca_state = state;
}

static void send(struct tcp_test *t)
{
	t->tp.segs_out++;
	t->tp.snd_nxt += 1000;
}

static void reduce(struct tcp_test *t)
{
	t->tp.high_seq = t->tp.snd_nxt;
	t->tp.prior_cwnd = t->tp.snd_cwnd;
}

/* __tcp_transmit_skb(): the device refuses a packet, before snd_nxt moves */
static void local_congestion(struct tcp_test *t)
{
	t->tp.segs_out++;
	reduce(t);
	set_state(t, TCP_CA_CWR);
	t->tp.snd_nxt += 1000;
}

/* tcp_ack() with ECE, in Open or Disorder */
static void ecn_echo(struct tcp_test *t, u32 delivered)
{
	t->tp.delivered_ce += delivered;
	reduce(t);
	set_state(t, TCP_CA_CWR);
}

/* tcp_process_tlp_ack(): an ACK beyond the probe, which was a retransmission */
static void tlp_recovery(struct tcp_test *t)
{
	reduce(t);
	set_state(t, TCP_CA_CWR);
	set_state(t, TCP_CA_Open);
}

/* tcp_fastretrans_alert(), D: something beyond high_seq is acknowledged */
static void leave(struct tcp_test *t)
{
	send(t);
	t->tp.snd_una = t->tp.high_seq + 1;
	set_state(t, TCP_CA_Open);
}

static void expect(struct kunit *test, u32 local, u32 ecn, u32 recovery,
		   u32 loss, u32 tlp)
{
	struct tcp_test *t = test->priv;

	iscsit_tcp_settle(&t->tcp);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_CWR_LOCAL].count, local);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_CWR_ECN].count, ecn);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_RECOVERY].count,
			recovery);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_LOSS].count, loss);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_CWR_TLP].count, tlp);
}

static void local(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	local_congestion(t);
	/* Certain at once, as no tail loss probe was ever sent */
	KUNIT_EXPECT_FALSE(test, t->tcp.undecided);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_CWR_LOCAL].count, 1);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_CWR_LOCAL].cwnd_pkts,
			100);
	leave(t);
	local_congestion(t);
	expect(test, 2, 0, 0, 0, 0);
}

static void ecn(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	send(t);
	ecn_echo(t, 2);
	leave(t);
	local_congestion(t);
	leave(t);
	ecn_echo(t, 1);
	expect(test, 1, 2, 0, 0, 0);
}

/* One ACK ends Recovery and, as it carries ECE, enters CWR. */
static void ecn_ends_recovery(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	send(t);
	reduce(t);
	set_state(t, TCP_CA_Recovery);
	send(t);
	t->tp.delivered_ce++;
	t->tp.snd_una = t->tp.high_seq;
	set_state(t, TCP_CA_Open);
	ecn_echo(t, 0);
	expect(test, 0, 1, 1, 0, 0);
}

static void tlp(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	t->tp.tlp_retrans = 1;
	send(t);
	t->tp.snd_una = t->tp.snd_nxt;
	tlp_recovery(t);
	expect(test, 0, 0, 0, 0, 1);
	KUNIT_EXPECT_EQ(test, t->tcp.reduced_cause, ISCSIT_CAUSE_CWR_TLP);
}

/* The bit stays after the probe: what comes later is told apart all the same */
static void local_after_tlp(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	tlp(test);
	local_congestion(t);
	KUNIT_EXPECT_TRUE(test, t->tcp.undecided);
	leave(t);
	expect(test, 1, 0, 0, 0, 1);
	KUNIT_EXPECT_EQ(test, t->tcp.reduced_cause, ISCSIT_CAUSE_CWR_LOCAL);

	/* Asked while in CWR, with the socket unlocked: it is not a probe's */
	local_congestion(t);
	expect(test, 2, 0, 0, 0, 1);
	leave(t);
	expect(test, 2, 0, 0, 0, 1);
}

/* One ACK is a probe's and carries ECE. */
static void tlp_and_ecn(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	t->tp.tlp_retrans = 1;
	send(t);
	t->tp.delivered_ce++;
	t->tp.snd_una = t->tp.snd_nxt;
	tlp_recovery(t);
	ecn_echo(t, 0);
	expect(test, 0, 1, 0, 0, 1);
}

/* tcp_process_tlp_ack() looks at no state. */
static void tlp_in_cwr_and_recovery(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	t->tp.tlp_retrans = 1;
	local_congestion(t);
	tlp_recovery(t);
	expect(test, 1, 0, 0, 0, 1);

	reduce(t);
	set_state(t, TCP_CA_Recovery);
	tlp_recovery(t);
	expect(test, 1, 0, 1, 0, 2);
}

static void recovery_and_loss(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	t->tp.tlp_retrans = 1;
	set_state(t, TCP_CA_Disorder);
	reduce(t);
	set_state(t, TCP_CA_Recovery);
	t->tp.snd_cwnd = 1;
	t->tp.prior_cwnd = 50;
	set_state(t, TCP_CA_Loss);
	set_state(t, TCP_CA_Loss);	/* the timer again */
	set_state(t, TCP_CA_Open);
	expect(test, 0, 0, 1, 2, 0);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_RECOVERY].cwnd_pkts,
			100);
	KUNIT_EXPECT_EQ(test, t->tcp.counts[ISCSIT_CAUSE_LOSS].cwnd_pkts, 50);
}

static void one_reduction(struct kunit *test)
{
	struct tcp_test *t = test->priv;

	t->tp.srtt_us = 30000 << 3;
	set_state(t, TCP_CA_Disorder);
	KUNIT_EXPECT_EQ(test, t->tcp.reductions, 0);
	set_state(t, TCP_CA_Recovery);
	t->tp.rack.rtt_us = 20000;
	set_state(t, TCP_CA_Loss);
	KUNIT_EXPECT_EQ(test, t->tcp.reductions, 1);
	KUNIT_EXPECT_EQ(test, t->tcp.reduced_cause, ISCSIT_CAUSE_RECOVERY);
	KUNIT_EXPECT_EQ(test, t->tcp.reduced_rtt_us, 30000);

	set_state(t, TCP_CA_Open);
	set_state(t, TCP_CA_CWR);
	KUNIT_EXPECT_EQ(test, t->tcp.reductions, 2);
	KUNIT_EXPECT_EQ(test, t->tcp.reduced_cause, ISCSIT_CAUSE_CWR_ECN);
	KUNIT_EXPECT_EQ(test, t->tcp.reduced_rtt_us, 20000);
}

static struct kunit_case tcp_test_cases[] = {
	KUNIT_CASE(local),
	KUNIT_CASE(ecn),
	KUNIT_CASE(ecn_ends_recovery),
	KUNIT_CASE(tlp),
	KUNIT_CASE(local_after_tlp),
	KUNIT_CASE(tlp_and_ecn),
	KUNIT_CASE(tlp_in_cwr_and_recovery),
	KUNIT_CASE(recovery_and_loss),
	KUNIT_CASE(one_reduction),
	{}
};

static struct kunit_suite tcp_test_suite = {
	.name = "iscsit_tcp",
	.init = tcp_test_init,
	.test_cases = tcp_test_cases,
};

kunit_test_suite(tcp_test_suite);

MODULE_DESCRIPTION("KUnit tests of the iSCSI target's TCP observation");
MODULE_INFO(import_ns, "EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
