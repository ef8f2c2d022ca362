// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit test: the bytes of log page 3Ch.
 */

#include <kunit/test.h>
#include <linux/module.h>

#include "iscsi_target_log.h"
#include "iscsi_target_tcp.h"

/* Values whose bytes on the wire are their own offsets */
static u32 at4(u8 offset)
{
	return 0x00010203 + 0x01010101 * offset;
}

static u64 at8(u8 offset)
{
	return (u64)at4(offset) << 32 | at4(offset + 4);
}

static struct iscsit_tcp_count count_at(u8 offset)
{
	return (struct iscsit_tcp_count) {
		.count = at4(offset),
		.cwnd_pkts = at4(offset + 4),
	};
}

static void conn_parameter(struct kunit *test)
{
	struct iscsit_tcp *tcp = kunit_kzalloc(test, sizeof(*tcp), GFP_KERNEL);
	const struct iscsit_tcp_state state = {
		.tcp = true,
		.info = {
			.tcpi_ca_state = 3,
			.tcpi_delivery_rate_app_limited = 1,
			.tcpi_snd_mss = at4(4),
			.tcpi_snd_cwnd = at4(8),
			.tcpi_snd_ssthresh = at4(12),
			.tcpi_unacked = at4(20),
			.tcpi_lost = at4(24),
			.tcpi_retrans = at4(28),
			.tcpi_rtt = at4(32),
			.tcpi_rttvar = at4(36),
			.tcpi_min_rtt = at4(40),
			.tcpi_snd_wnd = at4(44),
			.tcpi_delivery_rate = at8(48),
			.tcpi_pacing_rate = at8(56),
			.tcpi_bytes_sent = at8(64),
			.tcpi_bytes_acked = at8(72),
			.tcpi_bytes_retrans = at8(80),
			.tcpi_busy_time = at8(88),
			.tcpi_rwnd_limited = at8(96),
			.tcpi_sndbuf_limited = at8(104),
			.tcpi_total_retrans = at4(152),
			.tcpi_notsent_bytes = at4(160),
		},
		.prior_cwnd_pkts = at4(16),
		.reduced_rtt_us = at4(168),
		.counts = {
			[ISCSIT_CAUSE_CWR_LOCAL] = count_at(112),
			[ISCSIT_CAUSE_CWR_ECN] = count_at(120),
			[ISCSIT_CAUSE_RECOVERY] = count_at(128),
			[ISCSIT_CAUSE_LOSS] = count_at(136),
			[ISCSIT_CAUSE_CWR_TLP] = { .count = at4(164) },
		},
		.read_outstanding_bytes = at8(144),
		.sndbuf_bytes = at4(156),
	};
	u8 page[ISCSIT_LOG_CONN_BYTES] = {};
	int i;

	KUNIT_ASSERT_NOT_NULL(test, tcp);
	tcp->cid = 0x0001;

	iscsit_log_put_conn(page, tcp, &state);
	KUNIT_EXPECT_EQ(test, page[2], iscsit_tcp_counts_events() ? 7 : 3);
	page[2] = 2;
	for (i = 0; i < ISCSIT_LOG_CONN_BYTES; i++)
		KUNIT_EXPECT_EQ_MSG(test, page[i], i, "byte %d", i);
}

static void conn_parameter_without_tcp(struct kunit *test)
{
	struct iscsit_tcp *tcp = kunit_kzalloc(test, sizeof(*tcp), GFP_KERNEL);
	const struct iscsit_tcp_state state = {
		.read_outstanding_bytes = at8(144),
	};
	u8 page[ISCSIT_LOG_CONN_BYTES] = {};
	int i;

	KUNIT_ASSERT_NOT_NULL(test, tcp);
	tcp->cid = 0x0001;

	iscsit_log_put_conn(page, tcp, &state);
	for (i = 0; i < ISCSIT_LOG_CONN_BYTES; i++)
		KUNIT_EXPECT_EQ_MSG(test, page[i],
				    i < 2 || (i >= 144 && i < 152) ? i : 0,
				    "byte %d", i);
}

static struct kunit_case log_test_cases[] = {
	KUNIT_CASE(conn_parameter),
	KUNIT_CASE(conn_parameter_without_tcp),
	{}
};

static struct kunit_suite log_test_suite = {
	.name = "iscsit_log",
	.test_cases = log_test_cases,
};

kunit_test_suite(log_test_suite);

MODULE_DESCRIPTION("KUnit tests of the iSCSI target's log page");
MODULE_INFO(import_ns, "EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
