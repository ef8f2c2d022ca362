// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit test: the bytes of log page 3Ch.
 */

#include <kunit/test.h>
#include <linux/module.h>

#include "iscsi_target_log.h"
#include "iscsi_target_tcp.h"

/* The value whose bytes on the wire are their own offsets */
#define AT4(o) (((o) << 24) | ((o) + 1) << 16 | ((o) + 2) << 8 | ((o) + 3))
#define AT8(o) (((u64)AT4(o) << 32) | AT4((o) + 4))

#define COUNT_AT(o) { .count = AT4(o), .cwnd_pkts = AT4((o) + 4) }

static void conn_parameter(struct kunit *test)
{
	struct iscsit_tcp *tcp = kunit_kzalloc(test, sizeof(*tcp), GFP_KERNEL);
	const struct iscsit_tcp_state state = {
		.tcp = true,
		.info = {
			.tcpi_ca_state = 3,
			.tcpi_delivery_rate_app_limited = 1,
			.tcpi_snd_mss = AT4(4),
			.tcpi_snd_cwnd = AT4(8),
			.tcpi_snd_ssthresh = AT4(12),
			.tcpi_unacked = AT4(20),
			.tcpi_lost = AT4(24),
			.tcpi_retrans = AT4(28),
			.tcpi_rtt = AT4(32),
			.tcpi_rttvar = AT4(36),
			.tcpi_min_rtt = AT4(40),
			.tcpi_snd_wnd = AT4(44),
			.tcpi_delivery_rate = AT8(48),
			.tcpi_pacing_rate = AT8(56),
			.tcpi_bytes_sent = AT8(64),
			.tcpi_bytes_acked = AT8(72),
			.tcpi_bytes_retrans = AT8(80),
			.tcpi_busy_time = AT8(88),
			.tcpi_rwnd_limited = AT8(96),
			.tcpi_sndbuf_limited = AT8(104),
			.tcpi_total_retrans = AT4(152),
			.tcpi_notsent_bytes = AT4(160),
		},
		.prior_cwnd_pkts = AT4(16),
		.counts = {
			[ISCSIT_CAUSE_CWR_LOCAL] = COUNT_AT(112),
			[ISCSIT_CAUSE_CWR_ECN] = COUNT_AT(120),
			[ISCSIT_CAUSE_RECOVERY] = COUNT_AT(128),
			[ISCSIT_CAUSE_LOSS] = COUNT_AT(136),
			[ISCSIT_CAUSE_CWR_TLP] = { .count = AT4(164) },
		},
		.read_outstanding_bytes = AT8(144),
		.sndbuf_bytes = AT4(156),
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
		.read_outstanding_bytes = AT8(144),
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
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);
MODULE_LICENSE("GPL");
