// SPDX-License-Identifier: GPL-2.0-only
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::*;
use proptest::prelude::*;

/// Header, session header, signature and version, connection count: each bit of it matters.
const SESSION_AT: usize = 4;
const CONNECTION_AT: usize = SESSION_AT + 4 + SESSION_BYTES as usize;

fn sample() -> Page {
    Page {
        tsih: 7,
        command_window: 64,
        clock_us: 123_456_789,
        read_outstanding_bytes: 1 << 20,
        connections: vec![Connection {
            cid: 0,
            tcp: true,
            delivery_rate_app_limited: true,
            events_kept: true,
            ca_state: CaState::Recovery,
            figures: Figures {
                mss_bytes: 1448,
                snd_cwnd_pkts: 10,
                recovery: EventCount { count: 3, prior_cwnd_pkts: 20 },
                notsent_bytes: 0x0102_0304,
                cwr_tlp_count: 7,
                reduced_rtt_us: 20_000,
                ..Figures::default()
            },
        }],
    }
}

prop_compose! {
    fn figures()(
        a in any::<[u32; 11]>(), b in any::<[u64; 8]>(), e in any::<[(u32, u32); 4]>(), c in any::<(u64, [u32; 4])>(),
        reduced_rtt_us in any::<u32>(),
        mss_bytes in 1..=MAX_MSS_BYTES, snd_cwnd_pkts in 1..=MAX_CWND_PKTS,
        srtt_us in prop_oneof![Just(0), MAX_RTT_US / 2..=MAX_RTT_US],
        min_rtt_us in prop_oneof![Just(MIN_RTT_NOT_SET), 0..=MAX_RTT_US],
    ) -> Figures {
        let event = |i: usize| EventCount { count: e[i].0, prior_cwnd_pkts: e[i].1 };
        Figures {
            mss_bytes, snd_cwnd_pkts, ssthresh_pkts: a[2], prior_cwnd_pkts: a[3], packets_out_pkts: a[4],
            lost_pkts: a[5], retrans_pkts: a[6], srtt_us, rttvar_us: a[8], min_rtt_us, snd_wnd_bytes: a[10],
            delivery_rate_bytes_per_s: b[0], pacing_rate_bytes_per_s: b[1], bytes_sent: b[2], bytes_acked: b[3],
            bytes_retrans: b[4], busy_us: b[5], rwnd_limited_us: b[6], sndbuf_limited_us: b[7],
            cwr_local: event(0), cwr_ecn: event(1), recovery: event(2), loss: event(3),
            read_outstanding_bytes: c.0, total_retrans_pkts: c.1[0], sndbuf_bytes: c.1[1], notsent_bytes: c.1[2],
            cwr_tlp_count: c.1[3], reduced_rtt_us,
        }
    }
}

prop_compose! {
    fn connection()(
        cid in any::<u16>(), flags in any::<[bool; 3]>(), ca_state in 0u8..5, figures in figures(),
    ) -> Connection {
        Connection {
            cid, tcp: flags[0], delivery_rate_app_limited: flags[1], events_kept: flags[2],
            ca_state: ca_state.try_into().unwrap(), figures,
        }
    }
}

prop_compose! {
    fn page()(
        tsih in any::<u16>(), command_window in any::<u16>(), clock_us in any::<u64>(), read_outstanding_bytes in any::<u64>(),
        connections in prop::collection::vec(connection(), 0..4),
    ) -> Page {
        Page { tsih, command_window, clock_us, read_outstanding_bytes, connections }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Page::parse(&bytes);
    }

    #[test]
    fn damaged_pages_are_survived(page in page(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = page.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Page::parse(&bytes);
    }

    #[test]
    fn what_is_encoded_is_decoded(page in page(), padding in 0usize..100) {
        let mut bytes = page.encode();
        bytes.resize(bytes.len() + padding, 0);
        prop_assert_eq!(Page::parse(&bytes), Ok(page));
    }

    #[test]
    fn every_truncation_is_refused(page in page(), at in any::<prop::sample::Index>()) {
        let bytes = page.encode();
        prop_assert!(Page::parse(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn every_flipped_bit_of_the_frame_is_refused(page in page(), bit in 0u8..8, padding in 0usize..300) {
        let session_frame = 0..SESSION_AT + 4 + 9;
        let count = SESSION_AT + 4 + 10..SESSION_AT + 4 + 12;
        let connection_frames = (0..page.connections.len()).flat_map(|i| {
            let at = CONNECTION_AT + i * (4 + CONNECTION_BYTES as usize);
            at..at + 4
        });
        for at in session_frame.chain(count).chain(connection_frames) {
            let mut bytes = page.encode();
            bytes.resize(bytes.len() + padding, 0);
            bytes[at] ^= 1 << bit;
            prop_assert!(Page::parse(&bytes).is_err(), "bit {} of byte {}", bit, at);
        }
    }
}

#[test]
fn offsets_are_the_documented_ones() {
    let bytes = sample().encode();
    assert_eq!(bytes.len(), CONNECTION_AT + 4 + 172);
    assert_eq!(bytes[..8], [0xbc, 0, 0, 212, 0, 0, 3, 32]);
    let at = |offset: usize, length: usize| &bytes[CONNECTION_AT + 4 + offset..][..length];
    assert_eq!(bytes[CONNECTION_AT..][..4], [0, 1, 3, 172]);
    assert_eq!(at(2, 2), [0b111, 3]);
    assert_eq!(at(4, 8), [0, 0, 5, 0xa8, 0, 0, 0, 10]);
    assert_eq!(at(128, 8), [0, 0, 0, 3, 0, 0, 0, 20]);
    assert_eq!(at(160, 4), [1, 2, 3, 4]);
    assert_eq!(at(168, 4), [0, 0, 0x4e, 0x20]);
}

#[test]
fn a_longer_parameter_is_a_later_minor_revision() {
    let mut bytes = sample().encode();
    bytes.extend([0xff; 8]);
    bytes[3] += 8;
    bytes[CONNECTION_AT + 3] += 8;
    assert_eq!(Page::parse(&bytes), Ok(sample()));
}

#[test]
fn each_refusal_has_its_name() {
    let refused = |at: usize, value: u8| {
        let mut bytes = sample().encode();
        bytes[at] = value;
        Page::parse(&bytes).unwrap_err()
    };
    assert_eq!(refused(0, 0x3c), Error::Header([0x3c, 0, 0, 212]));
    assert_eq!(refused(8, b'X'), Error::Signature);
    assert_eq!(refused(16, 2), Error::Version(2));
    assert_eq!(refused(3, 208), Error::Length("a connection parameter"));
    assert_eq!(refused(3, 216), Error::Truncated { have: 212, need: 216 });
    assert_eq!(refused(CONNECTION_AT + 3, 168), Error::Length("a connection parameter"));
    assert_eq!(refused(CONNECTION_AT + 4 + 3, 5), Error::Nonsense { field: "ca_state", value: 5 });
    assert_eq!(refused(CONNECTION_AT + 4 + 11, 0), Error::Nonsense { field: "snd_cwnd_pkts", value: 0 });
}

#[test]
fn nonsense_is_refused() {
    type Change = fn(&mut Figures);
    let cases: [(&str, u64, Change); 9] = [
        ("mss_bytes", 0, |f| f.mss_bytes = 0),
        ("mss_bytes", 65_536, |f| f.mss_bytes = 65_536),
        ("snd_cwnd_pkts", 0, |f| f.snd_cwnd_pkts = 0),
        ("snd_cwnd_pkts", (1 << 24) + 1, |f| f.snd_cwnd_pkts = (1 << 24) + 1),
        ("srtt_us", 60_000_001, |f| f.srtt_us = 60_000_001),
        ("srtt_us", u32::MAX.into(), |f| f.srtt_us = u32::MAX),
        ("min_rtt_us", 60_000_001, |f| f.min_rtt_us = 60_000_001),
        ("min_rtt_us", u64::from(MIN_RTT_NOT_SET) - 1, |f| f.min_rtt_us = MIN_RTT_NOT_SET - 1),
        ("srtt_us", 9_999, |f| (f.srtt_us, f.min_rtt_us) = (9_999, 20_000)),
    ];
    for (field, value, change) in cases {
        let mut page = sample();
        change(&mut page.connections[0].figures);
        assert_eq!(Page::parse(&page.encode()), Err(Error::Nonsense { field, value }));
    }
}

#[test]
fn the_extremes_of_sense_are_taken() {
    type Change = fn(&mut Figures);
    let cases: [Change; 5] = [
        |f| (f.mss_bytes, f.snd_cwnd_pkts) = (65_535, 1 << 24),
        |f| (f.srtt_us, f.min_rtt_us) = (60_000_000, 60_000_000),
        |f| (f.srtt_us, f.min_rtt_us) = (10_000, 20_000),
        |f| (f.srtt_us, f.min_rtt_us) = (0, 20_000),
        |f| (f.srtt_us, f.min_rtt_us) = (1, MIN_RTT_NOT_SET),
    ];
    for change in cases {
        let mut page = sample();
        change(&mut page.connections[0].figures);
        assert_eq!(Page::parse(&page.encode()), Ok(page));
    }
}

#[test]
fn without_tcp_the_figures_may_be_zero() {
    let mut page = sample();
    page.connections[0].tcp = false;
    page.connections[0].figures = Figures::default();
    assert_eq!(Page::parse(&page.encode()), Ok(page));
}
