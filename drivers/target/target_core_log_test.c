// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of LOG SENSE, on the wire's bytes.
 */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/unaligned.h>
#include <scsi/scsi_proto.h>
#include <target/target_core_base.h>
#include <target/target_core_log.h>

#include "target_core_log_internal.h"

static bool test_page_exists;
static int test_error;

static bool test_supported(struct se_cmd *cmd)
{
	return test_page_exists;
}

static int test_fill(struct se_cmd *cmd, struct target_log *log)
{
	u8 *p;

	p = target_log_add(log, 0, 2);
	if (p)
		put_unaligned_be16(0x1234, p);
	p = target_log_add(log, 7, 4);
	if (p)
		put_unaligned_be32(0x56789abc, p);
	return test_error;
}

static struct target_log_page test_page = {
	.code = 0x31,
	.supported = test_supported,
	.fill = test_fill,
};

static int fill_too_much(struct se_cmd *cmd, struct target_log *log)
{
	int i;

	for (i = 0; i < 300; i++)
		target_log_add(log, i, 255);
	return 0;
}

static struct target_log_page test_huge_page = {
	.code = 0x30,
	.supported = test_supported,
	.fill = fill_too_much,
};

struct log_case {
	const char *name;
	bool absent;		/* the test pages are not supported */
	int error;		/* of test_fill() */
	u8 cdb[10];
	sense_reason_t sense;
	u8 page[32];
	u32 page_bytes;
};

#define PAGE(...) \
	.page = { __VA_ARGS__ }, .page_bytes = sizeof((u8[]){ __VA_ARGS__ })

static const struct log_case log_cases[] = {
	{
		.name = "supported pages",
		.cdb = { LOG_SENSE, 0, 0x40 },
		PAGE(0x00, 0x00, 0, 3, 0x00, 0x30, 0x31),
	}, {
		.name = "supported pages, without the test's",
		.absent = true,
		.cdb = { LOG_SENSE, 0, 0x40 },
		PAGE(0x00, 0x00, 0, 1, 0x00),
	}, {
		.name = "supported pages and subpages",
		.cdb = { LOG_SENSE, 0, 0x40, 0xff },
		PAGE(0x40, 0xff, 0, 8, 0x00, 0x00, 0x00, 0xff,
		     0x30, 0x00, 0x31, 0x00),
	}, {
		.name = "cumulative values",
		.cdb = { LOG_SENSE, 0, 0x40 | 0x31 },
		PAGE(0xb1, 0x00, 0, 14,
		     0, 0, 0x03, 2, 0x12, 0x34,
		     0, 7, 0x03, 4, 0x56, 0x78, 0x9a, 0xbc),
	}, {
		.name = "threshold values",
		.cdb = { LOG_SENSE, 0, 0x31 },
		PAGE(0xb1, 0x00, 0, 14,
		     0, 0, 0x03, 2, 0x12, 0x34,
		     0, 7, 0x03, 4, 0x56, 0x78, 0x9a, 0xbc),
	}, {
		.name = "parameter pointer between two",
		.cdb = { LOG_SENSE, 0, 0x40 | 0x31, 0, 0, 0, 3 },
		PAGE(0xb1, 0x00, 0, 8,
		     0, 7, 0x03, 4, 0x56, 0x78, 0x9a, 0xbc),
	}, {
		.name = "parameter pointer beyond the last",
		.cdb = { LOG_SENSE, 0, 0x40 | 0x31, 0, 0, 1, 0 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "parameter pointer into a list",
		.cdb = { LOG_SENSE, 0, 0x40, 0, 0, 0, 1 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "page not supported for this session",
		.absent = true,
		.cdb = { LOG_SENSE, 0, 0x40 | 0x31 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "no memory for the page",
		.error = -ENOMEM,
		.cdb = { LOG_SENSE, 0, 0x40 | 0x31, 0, 0, 0, 8 },
		.sense = TCM_OUT_OF_RESOURCES,
	}, {
		.name = "unknown page",
		.cdb = { LOG_SENSE, 0, 0x40 | 0x32 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "unknown subpage",
		.cdb = { LOG_SENSE, 0, 0x40 | 0x31, 1 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "unknown subpage of the list",
		.cdb = { LOG_SENSE, 0, 0x40, 1 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "default cumulative values",
		.cdb = { LOG_SENSE, 0, 0xc0 | 0x31 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "save parameters",
		.cdb = { LOG_SENSE, 0x01, 0x40 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "parameter pointer control",
		.cdb = { LOG_SENSE, 0x02, 0x40 },
		.sense = TCM_INVALID_CDB_FIELD,
	}, {
		.name = "page beyond 64 KiB",
		.cdb = { LOG_SENSE, 0, 0x40 | 0x30 },
		.sense = TCM_OUT_OF_RESOURCES,
	},
};

KUNIT_ARRAY_PARAM_DESC(log, log_cases, name);

static void log_sense(struct kunit *test)
{
	const struct log_case *c = test->param_value;
	struct se_cmd *cmd = kunit_kzalloc(test, sizeof(*cmd), GFP_KERNEL);
	struct target_log log = {};
	sense_reason_t sense;

	KUNIT_ASSERT_NOT_NULL(test, cmd);
	cmd->t_task_cdb = (u8 *)c->cdb;
	test_page_exists = !c->absent;
	test_error = c->error;

	sense = target_make_log_page(cmd, &log);
	KUNIT_EXPECT_TRUE(test, sense == c->sense);
	if (!sense && !c->sense) {
		KUNIT_EXPECT_EQ(test, log.len_bytes, c->page_bytes);
		KUNIT_EXPECT_MEMEQ(test, log.buf, c->page,
				   min(log.len_bytes, c->page_bytes));
	}
	kfree(log.buf);
}

static void log_register(struct kunit *test)
{
	struct target_log_page page = test_page;

	KUNIT_EXPECT_EQ(test, target_register_log_page(&page), -EBUSY);
	page.code = 0x2f;
	KUNIT_EXPECT_EQ(test, target_register_log_page(&page), -EINVAL);
	page.code = 0x3f;
	KUNIT_EXPECT_EQ(test, target_register_log_page(&page), -EINVAL);
}

/* The iSCSI target's own page, if it is built in, supports no test command. */
static int log_init(struct kunit *test)
{
	int ret = target_register_log_page(&test_page);

	if (!ret) {
		ret = target_register_log_page(&test_huge_page);
		if (ret)
			target_unregister_log_page(&test_page);
	}
	return ret;
}

static void log_exit(struct kunit *test)
{
	target_unregister_log_page(&test_huge_page);
	target_unregister_log_page(&test_page);
}

static struct kunit_case log_test_cases[] = {
	KUNIT_CASE_PARAM(log_sense, log_gen_params),
	KUNIT_CASE(log_register),
	{}
};

static struct kunit_suite log_test_suite = {
	.name = "target_log",
	.init = log_init,
	.exit = log_exit,
	.test_cases = log_test_cases,
};

kunit_test_suite(log_test_suite);

MODULE_DESCRIPTION("KUnit tests of the target's LOG SENSE");
MODULE_INFO(import_ns, "EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
