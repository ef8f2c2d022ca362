/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef ISCSI_TARGET_REGAIN_H
#define ISCSI_TARGET_REGAIN_H

struct iscsit_conn;
struct iscsit_regain;
struct iscsit_tcp;
struct sock;

void iscsit_regain(struct iscsit_conn *conn);

#if IS_ENABLED(CONFIG_KUNIT)
void iscsit_regain_bound_pacing(struct iscsit_regain *regain, struct sock *sk,
				unsigned long bytes_per_s);
void iscsit_regain_look(struct iscsit_regain *regain,
			const struct iscsit_tcp *tcp, struct sock *sk);
bool iscsit_regain_look_again(struct iscsit_regain *regain,
			      const struct iscsit_tcp *tcp, struct sock *sk);
void iscsit_regain_recovery(struct iscsit_regain *regain,
			    const struct iscsit_tcp *tcp, struct sock *sk);
#endif

#endif /* ISCSI_TARGET_REGAIN_H */
