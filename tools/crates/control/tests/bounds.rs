// SPDX-License-Identifier: GPL-2.0-only
//! Whatever the target says and whenever it says it, what comes out stays within the configured limits.
#![allow(clippy::expect_used)]

use cwnd_control::{DiskState, Input, Limits, Output, PathState, Received, StrategyName, strategy};
use proptest::prelude::*;

/// As the configuration file allows them.
fn any_limits() -> impl Strategy<Value = Limits> {
    (12..21u32, 12..21u32, 1..1024u32, (64u64 << 10)..(1 << 30), (128u64 << 10)..(1 << 30)).prop_map(
        |(a, b, max_commands, max_window_bytes, max_read_ahead_bytes)| Limits {
            min_request_bytes: 1 << a.min(b),
            max_request_bytes: 1 << a.max(b),
            max_commands,
            max_window_bytes,
            max_read_ahead_bytes,
        },
    )
}

fn within(limits: &Limits, out: &Output, disks: &[DiskState]) -> Result<(), TestCaseError> {
    prop_assert!((limits.min_request_bytes..=limits.max_request_bytes).contains(&out.request_bytes));
    prop_assert!(out.request_bytes.is_power_of_two());
    prop_assert!(out.window_bytes <= limits.max_window_bytes);
    prop_assert!(out.read_ahead_bytes <= limits.max_read_ahead_bytes);
    prop_assert_eq!(out.depths.len(), disks.len());
    for (depth, disk) in out.depths.iter().zip(disks) {
        prop_assert!(*depth >= 1 && *depth <= disk.max_depth.clamp(1, limits.max_commands));
    }
    Ok(())
}

/// Of any magnitude: evenly chosen, nearly all would be too large to mean anything. And the most so often that a product of
/// some is the most that it may be.
fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![7 => (any::<u32>(), 0..32u32).prop_map(|(number, shift)| number >> shift), 1 => Just(u32::MAX)]
}

fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![7 => (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift), 1 => Just(u64::MAX)]
}

fn any_received() -> impl Strategy<Value = Received> {
    (any_bytes(), any_number(), any_number(), any_number(), 0..=14u32).prop_map(
        |(bytes, pkts, out_of_order_pkts, srtt_us, scale)| Received {
            bytes,
            pkts,
            out_of_order_pkts,
            srtt_us,
            window_unit_bytes: 1 << scale,
        },
    )
}

fn any_path() -> impl Strategy<Value = PathState> {
    (prop::array::uniform16(any_number()), any_bytes()).prop_map(|(w, bytes_acked)| PathState {
        command_window: w[0],
        mss_bytes: w[1],
        snd_cwnd_pkts: w[2],
        prior_cwnd_pkts: w[3],
        srtt_us: w[4],
        min_rtt_us: w[5],
        snd_wnd_bytes: w[6],
        sndbuf_bytes: w[7],
        recovery: w[8],
        loss: w[9],
        cwr_ecn: w[10],
        notsent_bytes: w[11],
        cwr_tlp: w[12],
        asked_us: w[13].into(),
        ssthresh_pkts: w[14],
        reduced_rtt_us: w[15],
        bytes_acked,
    })
}

fn any_disk() -> impl Strategy<Value = DiskState> {
    (any::<u64>(), 0..56u32, any::<[bool; 4]>(), prop::array::uniform3(any_number())).prop_map(
        |(bytes, shift, [reading, changing, prompt, below], [in_flight, max_depth, request_bytes])| DiskState {
            read_bytes: bytes >> 8 >> shift,
            read_ios: bytes >> 20 >> shift,
            begun_bytes: bytes,
            begun_ios: u64::from(in_flight >> 3),
            in_flight,
            reading,
            request_bytes,
            changing,
            prompt,
            below,
            max_request_bytes: 16 << 20,
            max_depth,
        },
    )
}

proptest! {
    #[test]
    fn every_output_is_within_the_limits(
        name in prop::sample::select(&StrategyName::ALL[1..]),
        limits in any_limits(),
        steps in prop::collection::vec((any_number(), prop::option::weighted(0.8, any_path()), prop::option::of(any_received()), prop::option::of(any_number()), prop::collection::vec(any_disk(), 1..4), prop::bool::weighted(0.1)), 1..60),
    ) {
        let mut law = strategy(name.1, limits).expect("all but the first, off");
        let (mut now_us, mut mss_bytes) = (0, 0);
        for (wait_us, path, received, share, disks, rest) in steps {
            now_us += 1 + u64::from(wait_us);
            let input = Input { now_us, path, received, share: share.map(u64::from), disks: &disks };
            let out = if rest { law.rest(&input) } else { law.tick(&input) };
            within(&limits, &out, &disks)?;
            mss_bytes = path.map_or(mss_bytes, |path| u64::from(path.mss_bytes));
            if let Some(bytes) = out.advertised_bytes {
                let unit_bytes = u64::from(received.map_or(0, |received| received.window_unit_bytes));
                prop_assert!(bytes % unit_bytes == 0 && bytes >= mss_bytes.min(limits.max_window_bytes));
                prop_assert!(bytes < limits.max_window_bytes + unit_bytes);
            }
            prop_assert!(out.next_us > now_us);
        }
    }

    #[test]
    fn without_a_page_nothing_grows_but_by_what_arrives(arrivals in prop::collection::vec(0..1u64 << 20, 1..50)) {
        let mut law = strategy(StrategyName::Notify, Limits::default()).expect("notify is a strategy");
        let disk = DiskState { reading: true, prompt: true, max_request_bytes: 16 << 20, max_depth: 128, ..DiskState::default() };
        let rest = law.rest(&Input { now_us: 0, path: None, received: None, share: None, disks: &[disk] });
        let mut read_bytes = 0;
        for (i, arrived) in arrivals.into_iter().enumerate() {
            read_bytes += arrived;
            let disk = DiskState { read_bytes, ..disk };
            let out = law.tick(&Input { now_us: 100_000 * (i as u64 + 1), path: None, received: None, share: None, disks: &[disk] });
            prop_assert!(out.window_bytes <= rest.window_bytes + read_bytes);
        }
    }
}

/// One disk's requests are of a byte, the others ask for all that there is, and one of them not for long.
#[test]
fn what_is_asked_for_may_be_beyond_all_bounds() {
    let mut law = strategy(StrategyName::Notify, Limits::default()).expect("notify is a strategy");
    let small = DiskState { reading: true, request_bytes: 1, ..DiskState::default() };
    let huge = DiskState { reading: true, request_bytes: u32::MAX, in_flight: u32::MAX, ..DiskState::default() };
    let path = Some(PathState { snd_wnd_bytes: u32::MAX, sndbuf_bytes: u32::MAX, ..PathState::default() });
    for (now_us, last) in [(1, huge), (2, DiskState { reading: false, in_flight: 1, ..huge }), (1_000_000, huge)] {
        law.tick(&Input { now_us, path, received: None, share: None, disks: &[small, huge, huge, last] });
    }
    // For so long that they seem to have all that they want.
    for now_us in [10_000_000, 20_000_000, 30_000_000] {
        law.tick(&Input { now_us, path, received: None, share: None, disks: &[huge, huge, huge] });
    }
}
