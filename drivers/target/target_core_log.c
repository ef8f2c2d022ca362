// SPDX-License-Identifier: GPL-2.0-only
/*
 * LOG SENSE (SPC-6, 6.9 and 7.3): the lists of supported pages, and vendor
 * specific pages that fabrics register.
 *
 * Log parameters are kept nowhere: a page is made when it is asked for, so it
 * has current values only. LOG SELECT stays unsupported.
 */

#include <kunit/visibility.h>
#include <linux/export.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include <target/target_core_backend.h>
#include <target/target_core_base.h>
#include <target/target_core_fabric.h>
#include <target/target_core_log.h>

#include "target_core_log_internal.h"

#define LOG_PAGES		0x00	/* supported log pages */
#define LOG_ALL_SUBPAGES	0xff
#define LOG_DS			BIT(7)	/* never saved */
#define LOG_SPF			BIT(6)	/* subpage format */
#define LOG_PARAM_LIST		0x03	/* binary format list, never saved */
#define LOG_PAGE_HEADER_BYTES	4
#define LOG_PARAM_HEADER_BYTES	4
#define LOG_PAGE_MAX_BYTES	(LOG_PAGE_HEADER_BYTES + U16_MAX)

/* CDB byte 2, bits 7-6: which values of the parameters */
#define LOG_PC_CUMULATIVE	1

static LIST_HEAD(log_pages);		/* by ascending code */
static DECLARE_RWSEM(log_pages_sem);	/* held for reading while one is filled */

/**
 * target_register_log_page() - answer LOG SENSE for a vendor specific page
 * @page: the page, which must stay until it is unregistered
 *
 * Return: 0, -EINVAL if the code is not a vendor's, -EBUSY if it is taken.
 */
int target_register_log_page(struct target_log_page *page)
{
	struct target_log_page *next;
	int ret = 0;

	if (page->code < TARGET_LOG_VENDOR_FIRST ||
	    page->code > TARGET_LOG_VENDOR_LAST)
		return -EINVAL;

	down_write(&log_pages_sem);
	list_for_each_entry(next, &log_pages, node)
		if (next->code >= page->code)
			break;
	if (!list_entry_is_head(next, &log_pages, node) &&
	    next->code == page->code)
		ret = -EBUSY;
	else
		list_add_tail(&page->node, &next->node);
	up_write(&log_pages_sem);

	return ret;
}
EXPORT_SYMBOL_GPL(target_register_log_page);

/**
 * target_unregister_log_page() - answer no longer, wait for those being filled
 * @page: a registered page
 */
void target_unregister_log_page(struct target_log_page *page)
{
	down_write(&log_pages_sem);
	list_del(&page->node);
	up_write(&log_pages_sem);
}
EXPORT_SYMBOL_GPL(target_unregister_log_page);

static u8 *log_append(struct target_log *log, size_t len_bytes)
{
	u8 *buf;

	if (log->err)
		return NULL;
	if (log->len_bytes + len_bytes > LOG_PAGE_MAX_BYTES) {
		log->err = -EMSGSIZE;
		return NULL;
	}
	buf = krealloc(log->buf, log->len_bytes + len_bytes, GFP_KERNEL);
	if (!buf) {
		log->err = -ENOMEM;
		return NULL;
	}
	log->buf = buf;
	buf += log->len_bytes;
	memset(buf, 0, len_bytes);
	log->len_bytes += len_bytes;
	return buf;
}

/**
 * target_log_add() - append a parameter to the log page being filled
 * @log: as given to the fill function
 * @code: parameter code, higher than that of the one before
 * @len_bytes: length of the value
 *
 * Return: where the value goes, zeroed and valid until the next call, or NULL
 * if this parameter is to be left out: it is below the parameter pointer asked
 * for, or there is no more room.
 */
u8 *target_log_add(struct target_log *log, u16 code, u8 len_bytes)
{
	u8 *param;

	if (code < log->pointer)
		return NULL;
	param = log_append(log, LOG_PARAM_HEADER_BYTES + len_bytes);
	if (!param)
		return NULL;

	put_unaligned_be16(code, param);
	param[2] = LOG_PARAM_LIST;
	param[3] = len_bytes;
	return param + LOG_PARAM_HEADER_BYTES;
}
EXPORT_SYMBOL_GPL(target_log_add);

static void log_list(struct target_log *log, u8 code, bool subpages)
{
	u8 *entry = log_append(log, 1 + subpages);

	if (entry)
		entry[0] = code;
}

/* Pages 00h and 00h/FFh: what can be asked for */
static void log_fill_list(struct se_cmd *cmd, struct target_log *log,
			  bool subpages)
{
	struct target_log_page *page;
	u8 *entry;

	log_list(log, LOG_PAGES, subpages);
	if (subpages) {
		entry = log_append(log, 2);
		if (entry)
			entry[1] = LOG_ALL_SUBPAGES;
	}
	list_for_each_entry(page, &log_pages, node)
		if (page->supported(cmd))
			log_list(log, page->code, subpages);
}

static sense_reason_t log_fill_page(struct se_cmd *cmd, struct target_log *log,
				    u8 code)
{
	struct target_log_page *page;
	int err;

	list_for_each_entry(page, &log_pages, node) {
		if (page->code != code || !page->supported(cmd))
			continue;
		err = page->fill(cmd, log);
		if (err)
			log->err = err;
		/* A pointer beyond the last parameter is an error, SPC-6 6.9 */
		if (!log->err && log->pointer &&
		    log->len_bytes == LOG_PAGE_HEADER_BYTES)
			break;
		return TCM_NO_SENSE;
	}
	return TCM_INVALID_CDB_FIELD;
}

/**
 * target_make_log_page() - make the page that a LOG SENSE command asks for
 * @cmd: the command
 * @log: empty; its buffer is the caller's to free, also after an error
 *
 * Return: 0, or the sense data of an error.
 */
VISIBLE_IF_KUNIT sense_reason_t
target_make_log_page(struct se_cmd *cmd, struct target_log *log)
{
	const u8 *cdb = cmd->t_task_cdb;
	u8 code = cdb[2] & 0x3f, subpage = cdb[3], pc = cdb[2] >> 6;
	sense_reason_t ret = TCM_NO_SENSE;
	u8 *header;

	/* Nothing is saved (SP), and byte 1 has no other bit, PPC is obsolete */
	if (cdb[1])
		return TCM_INVALID_CDB_FIELD;
	log->pointer = get_unaligned_be16(&cdb[5]);

	header = log_append(log, LOG_PAGE_HEADER_BYTES);
	if (!header)
		return TCM_OUT_OF_RESOURCES;
	header[0] = code;
	header[1] = subpage;

	down_read(&log_pages_sem);
	if (code == LOG_PAGES) {
		if (log->pointer || (subpage && subpage != LOG_ALL_SUBPAGES)) {
			ret = TCM_INVALID_CDB_FIELD;
		} else {
			if (subpage)
				header[0] |= LOG_SPF;
			log_fill_list(cmd, log, subpage);
		}
	} else if (subpage || pc > LOG_PC_CUMULATIVE) {
		ret = TCM_INVALID_CDB_FIELD;
	} else {
		header[0] |= LOG_DS;
		ret = log_fill_page(cmd, log, code);
	}
	up_read(&log_pages_sem);

	if (ret)
		return ret;
	if (log->err)
		return TCM_OUT_OF_RESOURCES;
	put_unaligned_be16(log->len_bytes - LOG_PAGE_HEADER_BYTES,
			   &log->buf[2]);
	return TCM_NO_SENSE;
}
EXPORT_SYMBOL_IF_KUNIT(target_make_log_page);

sense_reason_t spc_emulate_log_sense(struct se_cmd *cmd)
{
	struct target_log log = {};
	sense_reason_t ret;
	u8 *buf;

	ret = target_make_log_page(cmd, &log);
	if (ret)
		goto out;

	if (cmd->data_length) {
		buf = transport_kmap_data_sg(cmd);
		if (!buf) {
			ret = TCM_OUT_OF_RESOURCES;
			goto out;
		}
		memcpy(buf, log.buf, min(log.len_bytes, cmd->data_length));
		transport_kunmap_data_sg(cmd);
	}
	target_complete_cmd_with_length(cmd, SAM_STAT_GOOD, log.len_bytes);
out:
	kfree(log.buf);
	return ret;
}
