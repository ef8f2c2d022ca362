// SPDX-License-Identifier: GPL-2.0-only
//! The law against a model of the path: one drop-tail bottleneck, a sender with slow start and CUBIC (RFC 9438), a
//! reader that always wants more. The lab has the real thing; this is for fast answers over many paths.
#![allow(clippy::expect_used, clippy::cast_sign_loss)]

use std::collections::VecDeque;

use cwnd_control::{DiskState, Input, Limits, Output, PathState, Received, StrategyName, strategy};

const STEP_US: u64 = 100;
const MSS: f64 = 1448.0;

#[derive(Clone, Copy)]
struct Path {
    rate: f64,
    rtt_us: u64,
    queue_bdp: f64,
    /// What the target's disk can read, in bytes/s.
    disk_rate: f64,
    /// How long it takes for a request.
    disk_us: u64,
    /// Losses are told by the acknowledgements of what came behind them; else at once.
    told_late: bool,
    /// What comes meanwhile comes at once, every so often; 0 if it does not.
    slot_us: u64,
    /// From then on a packet is missing for a round trip, and holds back what comes behind it.
    hole_us: u64,
    /// One read, the next of which begins when it is over.
    read_bytes: f64,
    /// From then on another flow is at the bottleneck.
    rival_us: u64,
    /// What the reader asks for at once, however much it may.
    reader_bytes: f64,
    /// Another disk is read as well, so much at a time.
    other_disk_bytes: f64,
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mbit, ms) = (self.rate * 8e-6, self.rtt_us / 1000);
        write!(f, "{mbit:5.0} Mbit/s RTT {ms:3} ms queue {:.2} BDP", self.queue_bdp)
    }
}

#[derive(Default)]
struct Run {
    /// Delivered in the whole run and in its last half, in bytes.
    total: f64,
    last_half: f64,
    lost: f64,
    lost_last_half: f64,
    seconds: f64,
    /// Which limit binds in the end, and how many commands there may be beyond the window's.
    limit: &'static str,
    spare_commands: u64,
    /// The part of the window's places that questions have taken in the last half.
    questions_share: f64,
    /// In the round trip behind a hole, in bytes.
    asked_after_hole: f64,
    /// Of the other flow in the last half, in bytes.
    rival_last_half: f64,
    looks_last_half: u64,
}

/// CUBIC (RFC 9438), all in bytes; a flow that grows without slow start, once it has lost.
struct Cubic {
    cwnd: f64,
    slow_start: bool,
    cut_us: u64,
    lost_at: f64,
}

impl Cubic {
    fn new() -> Self {
        Self { cwnd: 10.0 * MSS, slow_start: true, cut_us: 0, lost_at: 0.0 }
    }

    fn cut(&mut self, now_us: u64) {
        *self = Self { cwnd: 0.7 * self.cwnd, slow_start: false, cut_us: now_us, lost_at: self.cwnd };
    }

    fn acked(&mut self, now_us: u64, acked: f64, in_flight: f64) {
        if self.slow_start && self.cwnd < 2.0 * in_flight {
            self.cwnd += acked;
        } else if self.cwnd <= in_flight + MSS {
            let since_s = (now_us - self.cut_us) as f64 / 1e6 - (self.lost_at / MSS * 0.3 / 0.4).cbrt();
            self.cwnd = self.cwnd.max((self.lost_at + 0.4 * since_s.powi(3) * MSS).min(1.5 * in_flight));
        }
    }

    /// As Linux paces (net.ipv4.tcp_pacing_ss_ratio, tcp_pacing_ca_ratio), in bytes for one step.
    fn paced(&self, srtt_us: u32) -> f64 {
        let ratio = if self.slow_start { 2.0 } else { 1.2 };
        ratio * self.cwnd / f64::from(srtt_us) * STEP_US as f64
    }
}

impl Path {
    /// With a disk that takes no time.
    fn new(rate: f64, rtt_us: u64, queue_bdp: f64) -> Self {
        let read_bytes = f64::INFINITY;
        let disk_rate = f64::INFINITY;
        let reader_bytes = f64::INFINITY;
        let (hole_us, rival_us) = (u64::MAX, u64::MAX);
        Self {
            rate,
            rtt_us,
            queue_bdp,
            disk_rate,
            disk_us: 0,
            told_late: false,
            slot_us: 0,
            hole_us,
            read_bytes,
            rival_us,
            reader_bytes,
            other_disk_bytes: 0.0,
        }
    }

    /// Bytes per second over the whole run, as a share of the rate.
    fn run(self, name: StrategyName, seconds: f64) -> Run {
        self.run_within(Limits::default(), name, seconds)
    }

    fn run_within(self, limits: Limits, name: StrategyName, seconds: f64) -> Run {
        let mut law = strategy(name, limits).expect("a strategy");
        let per_step = self.rate * STEP_US as f64 / 1e6;
        let bdp = self.rate * self.rtt_us as f64 / 1e6;
        let queue_limit = (bdp * self.queue_bdp).max(20.0 * MSS);
        let half_steps = (self.rtt_us / 2 / STEP_US).max(1) as usize;

        let mut disk = DiskState {
            reading: true,
            prompt: true,
            max_request_bytes: 16 << 20,
            max_depth: 128,
            ..Default::default()
        };
        let mut path = PathState {
            mss_bytes: MSS as u32,
            snd_cwnd_pkts: 10,
            ssthresh_pkts: u32::MAX,
            min_rtt_us: self.rtt_us as u32,
            srtt_us: self.rtt_us as u32,
            command_window: 512, // as configs/ have it
            snd_wnd_bytes: u32::MAX,
            sndbuf_bytes: u32::MAX,
            ..Default::default()
        };
        // And what has to be received until its read is done.
        let (mut other, mut other_done) = (disk, 0.0);
        let disks = if self.other_disk_bytes > 0.0 { 2 } else { 1 };
        let both = [disk, other];
        let rest = Input { now_us: 0, path: Some(path), received: None, share: None, disks: &both[..disks] };
        let mut set: Output = law.rest(&rest);
        let (mut request, mut next_tick, mut next_page) = (f64::from(set.request_bytes), 1_000, 1_000);
        // When it was asked for; and what the target answered, behind how much data.
        let mut page: Option<(u64, Option<(PathState, f64)>)> = None;

        let (mut tcp, mut in_flight, mut backlog, mut queue) = (Cubic::new(), 0.0, 0.0, 0.0);
        let (mut cut_due, mut cut_until, mut cut_rtt_us) = (u64::MAX, 0, 0);
        let (mut rival, mut rival_in_flight, mut rival_queue, mut rival_cut_until) = (Cubic::new(), 0.0, 0.0, 0);
        let mut rival_acks: VecDeque<f64> = vec![0.0; 2 * half_steps].into();
        let (mut asked, mut received, mut waiting_for_disk) = (0.0, 0.0, 0.0f64);
        let mut wanted = self.read_bytes;
        let (mut all_read, mut all_acked) = (0.0, 0.0);
        let (mut held_back, mut out_of_order_pkts) = (0.0, 0);
        let mut in_slot = 0.0;
        let mut asks: VecDeque<f64> = vec![0.0; half_steps + (self.disk_us / STEP_US) as usize].into();
        let mut data: VecDeque<f64> = vec![0.0; half_steps].into();
        let mut acks: VecDeque<f64> = vec![0.0; half_steps].into();
        let mut out = Run { seconds, ..Run::default() };

        for step in 0..(seconds * 1e6) as u64 / STEP_US {
            let now = 1_000 + step * STEP_US;
            let last_half = step * STEP_US * 2 >= (seconds * 1e6) as u64;
            // The initiator: whole requests, up to the depth.
            let mut new = 0.0;
            if disks > 1 && received + 1.0 >= other_done {
                other.read_bytes += u64::from(other.in_flight) * self.other_disk_bytes as u64;
                other.read_ios += u64::from(other.in_flight);
                other.in_flight = 1;
                asked += self.other_disk_bytes;
                new += self.other_disk_bytes;
                other_done = asked;
            }
            let others = f64::from(other.in_flight) * self.other_disk_bytes;
            wanted += if received + 1.0 >= wanted { self.read_bytes } else { 0.0 };
            let most = self.reader_bytes.max(request);
            // Near by a question has the place that is meant for it; far away, in this model, it takes none.
            let spare = if self.rtt_us < 40_000 { spare_commands(&set) } else { 0 };
            let depth = u64::from(set.depths[0]) - spare;
            while asked < wanted
                && (asked - others - received) / request + 1.0 <= depth as f64
                && asked - received + request <= most
            {
                asked += request;
                new += request;
            }
            let since_hole_us = now.saturating_sub(self.hole_us);
            if (self.rtt_us..2 * self.rtt_us).contains(&since_hole_us) {
                out.asked_after_hole += new;
            }
            asks.push_back(new);
            waiting_for_disk += asks.pop_front().unwrap_or(0.0);
            let read = waiting_for_disk.min(self.disk_rate * STEP_US as f64 / 1e6);
            waiting_for_disk -= read;
            backlog += read;
            all_read += read;
            // The sender's link is ten times the bottleneck.
            let paced = tcp.paced(path.srtt_us).min(10.0 * per_step);
            let sent = backlog.min((tcp.cwnd - in_flight).max(0.0)).min(paced);
            backlog -= sent;
            in_flight += sent;
            queue += sent;
            if now >= self.rival_us {
                let sent = (rival.cwnd - rival_in_flight).max(0.0).min(rival.paced(path.srtt_us));
                rival_in_flight += sent;
                rival_queue += sent;
            }
            let over = (queue + rival_queue - per_step - queue_limit).max(0.0);
            let ours = queue / (queue + rival_queue).max(1.0);
            if over * (1.0 - ours) > 0.0 {
                rival_queue -= over * (1.0 - ours);
                rival_in_flight -= over * (1.0 - ours);
                if now >= rival_cut_until {
                    rival.cut(now);
                    rival_cut_until = now + self.rtt_us;
                }
            }
            if over * ours > 0.0 {
                let lost = over * ours;
                queue -= lost;
                in_flight -= lost;
                backlog += lost;
                out.lost += lost;
                out.lost_last_half += if last_half { lost } else { 0.0 };
                if now >= cut_until {
                    let told_us = self.rtt_us + ((queue + rival_queue) / self.rate * 1e6) as u64;
                    cut_due = now + if self.told_late { told_us } else { 0 };
                    cut_until = cut_due + self.rtt_us;
                    cut_rtt_us = told_us as u32;
                }
            }
            if now >= cut_due {
                cut_due = u64::MAX;
                (path.prior_cwnd_pkts, path.reduced_rtt_us) = ((tcp.cwnd / MSS) as u32, cut_rtt_us);
                path.recovery += 1;
                tcp.cut(now);
            }
            let part = (per_step / (queue + rival_queue).max(1.0)).min(1.0);
            let (served, rival_served) = (queue * part, rival_queue * part);
            queue -= served;
            rival_queue -= rival_served;
            data.push_back(served);
            rival_acks.push_back(rival_served);
            let acked = rival_acks.pop_front().unwrap_or(0.0);
            rival.acked(now, acked, rival_in_flight);
            rival_in_flight -= acked;
            out.rival_last_half += if last_half { acked } else { 0.0 };
            in_slot += data.pop_front().unwrap_or(0.0);
            let slot = self.slot_us == 0 || now % self.slot_us < STEP_US;
            let arrived = if slot { std::mem::take(&mut in_slot) } else { 0.0 };
            if (1..self.rtt_us).contains(&since_hole_us) {
                (held_back, out_of_order_pkts) = (held_back + arrived, out_of_order_pkts + 1);
            } else {
                received += arrived + std::mem::take(&mut held_back);
            }
            out.total += arrived;
            out.last_half += if last_half { arrived } else { 0.0 };
            acks.push_back(arrived);
            let acked = acks.pop_front().unwrap_or(0.0);
            tcp.acked(now, acked, in_flight);
            in_flight -= acked;
            all_acked += acked;

            disk.request_bytes = request as u32;
            let own = received - other.read_bytes as f64;
            disk.read_bytes = ((own / request).floor() * request) as u64;
            disk.read_ios = (own / request) as u64;
            disk.in_flight = ((asked - others - received) / request).ceil() as u32;
            path.snd_cwnd_pkts = (tcp.cwnd / MSS) as u32;
            path.ssthresh_pkts = if tcp.slow_start { u32::MAX } else { (0.7 * tcp.lost_at / MSS) as u32 };
            path.bytes_acked = all_acked as u64;
            let waits_us = ((queue + rival_queue) / self.rate * 1e6) as u64 + self.slot_us / 2;
            path.srtt_us = (self.rtt_us + waits_us) as u32;
            path.notsent_bytes = backlog as u32;

            if let Some((asked_us, answer @ None)) = &mut page {
                *answer = (now >= *asked_us + self.rtt_us / 2)
                    .then_some((PathState { asked_us: *asked_us, ..path }, all_read));
            }
            let arrived_page = page
                .and_then(|(asked_us, answer)| answer.filter(|_| now >= asked_us + self.rtt_us))
                .and_then(|(answer, behind)| (received + 1.0 >= behind).then_some(answer));
            if arrived_page.is_some() {
                page = None;
            }
            if now >= next_tick || arrived_page.is_some() {
                out.looks_last_half += u64::from(last_half);
                let bytes = ((received / MSS).floor() * MSS) as u64;
                let pkts = (out.total / MSS) as u32;
                let both = [disk, other];
                set = law.tick(&Input {
                    now_us: now,
                    path: arrived_page,
                    received: Some(Received { bytes, pkts, out_of_order_pkts, ..Received::default() }),
                    share: None,
                    disks: &both[..disks],
                });
                next_tick = set.next_us;
                // Without a drain, that is the lab's; which leaves no depth behind that was made for smaller requests.
                let before = std::mem::replace(&mut request, f64::from(set.request_bytes));
                set.depths[0] = (f64::from(set.depths[0]) * (before / request).min(1.0)).ceil() as u32;
            }
            if page.is_none() && now >= next_page && name.needs_pages() {
                page = Some((now, None));
                if last_half {
                    let places = (set.window_bytes as f64 / request).max(1.0);
                    out.questions_share += f64::from(path.srtt_us) / (seconds / 2.0 * 1e6) / places;
                }
                next_page = now + set.page_us;
            }
        }
        out.limit = set.limit;
        out.spare_commands = spare_commands(&set);
        out
    }
}

fn spare_commands(set: &Output) -> u64 {
    let window = (set.window_bytes / u64::from(set.request_bytes)).max(1);
    u64::from(set.depths[0]).saturating_sub(window)
}

impl Run {
    fn share(&self, path: Path) -> f64 {
        self.total / self.seconds / path.rate
    }

    fn last_half_share(&self, path: Path) -> f64 {
        2.0 * self.last_half / self.seconds / path.rate
    }
}

fn paths() -> impl Iterator<Item = Path> {
    let rates = [12.5e6, 125e6];
    let rtts = [2_000, 20_000, 50_000, 200_000];
    let queues = [0.1, 0.25, 1.0];
    rates.into_iter().flat_map(move |rate| {
        rtts.into_iter()
            .flat_map(move |rtt_us| queues.into_iter().map(move |queue_bdp| Path::new(rate, rtt_us, queue_bdp)))
    })
}

#[test]
fn fills_every_path_and_then_loses_under_a_ten_thousandth() {
    let mut bad = Vec::new();
    for path in paths() {
        let run = path.run(StrategyName::Notify, 30.0);
        let line = format!(
            "{path}: {:.3} of the rate, last half {:.3}, lost {:.0} kB, in the last half {:.0} kB",
            run.share(path),
            run.last_half_share(path),
            run.lost / 1e3,
            run.lost_last_half / 1e3
        );
        println!("{line}");
        if run.last_half_share(path) < 0.95 || run.lost_last_half > 1e-4 * run.last_half {
            bad.push(line);
        }
    }
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

/// A step of the linear search takes some round trips, and brings 256 KiB.
#[test]
fn searches_find_the_path_by_throughput_alone() {
    let mut bad = Vec::new();
    for path in paths().filter(|path| path.queue_bdp == 0.25) {
        let long = path.rate * path.rtt_us as f64 > 3e12;
        let names = [StrategyName::Binary, StrategyName::Linear];
        for name in names.into_iter().take(if long { 1 } else { 2 }) {
            let share = path.run(name, 40.0).last_half_share(path);
            println!("{name:?} {path}: {share:.3}");
            if share < 0.95 {
                bad.push(format!("{name:?} {path}: {share:.3}"));
            }
        }
    }
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

#[test]
fn says_which_limit_binds() {
    let path = Path::new(12.5e6, 50_000, 1.0);
    let small = Limits { max_request_bytes: 16 << 10, max_commands: 16, ..Limits::default() };
    let few = Limits { max_window_bytes: 256 << 10, ..Limits::default() };
    let limit = |path: Path, limits| path.run_within(limits, StrategyName::Notify, 10.0).limit;
    assert_eq!(limit(path, Limits::default()), "link");
    assert_eq!(limit(path, small), "request size");
    assert_eq!(limit(path, few), "depth");
    assert_eq!(limit(Path { disk_rate: 2e6, ..path }, Limits::default()), "disk");
    assert_eq!(limit(Path { reader_bytes: 200e3, ..path }, Limits::default()), "application");
}

/// Far away one is always on its way, near by hardly ever.
#[test]
fn a_question_takes_the_place_of_no_read() {
    for (rtt_us, spare_commands) in [(2_000, 0), (50_000, 1)] {
        let path = Path::new(12.5e6, rtt_us, 1.0);
        assert_eq!(path.run(StrategyName::Notify, 5.0).spare_commands, spare_commands, "{path}");
    }
}

/// Each round trip counts far away, and slow start needs eleven of them there (1 Gbit/s, RTT 200 ms).
#[test]
fn far_away_the_start_keeps_up_with_slow_start() {
    for (rtt_us, least) in [(200_000, 0.5), (100_000, 0.77)] {
        let path = Path::new(125e6, rtt_us, 0.25);
        let run = path.run(StrategyName::Notify, 5.0);
        println!("{path}: {:.3}, lost {:.0} kB", run.share(path), run.lost / 1e3);
        assert!(run.share(path) > least && run.lost == 0.0, "{path}: {:.3}", run.share(path));
    }
}

/// Looks are too coarse for trains, and what is asked for beyond C is with responses that wait for each other: most of the
/// path is found, where a seventh was.
#[test]
fn a_fast_path_near_by_is_found() {
    for (rate, rtt_us) in [(312.5e6, 1_500), (625e6, 1_000), (1.25e9, 1_000), (1.25e9, 2_000)] {
        let path = Path::new(rate, rtt_us, 0.25);
        let run = path.run(StrategyName::Notify, 2.0);
        println!("{path}: {:.3} of the rate, last half {:.3}", run.share(path), run.last_half_share(path));
        assert!(run.share(path) > 0.6, "{path}");
    }
}

/// Trains show nothing of a path that delivers in slots: in the last half of 24 round trips and a second so much arrives.
#[test]
fn a_path_with_slots_is_found_soon() {
    for (rtt_us, slot_us, least) in [
        (3_000, 4_500, 0.8),
        (10_000, 5_000, 0.9),
        (10_000, 15_000, 0.65),
        (20_000, 2_000, 0.9),
        (20_000, 5_000, 0.93),
        (60_000, 2_000, 0.9),
        (60_000, 15_000, 0.95),
        (150_000, 15_000, 0.8),
    ] {
        for rate in [6.25e6, 12.5e6, 25e6] {
            let path = Path { slot_us, ..Path::new(rate, rtt_us, 0.5) };
            let run = path.run(StrategyName::Notify, rtt_us as f64 * 24e-6 + 1.0);
            println!("{path}, slots {slot_us} us: {:.3}", run.last_half_share(path));
            assert!(run.last_half_share(path) > least, "{path}, slots {slot_us} us");
        }
    }
}

/// Where the path holds few requests, a question that takes the place of one is rare.
#[test]
fn questions_take_a_twentieth_of_the_window_at_most() {
    for (rate, rtt_us) in [(3.75e6, 25_000), (7.5e6, 6_000), (2.5e6, 20_000)] {
        let path = Path::new(rate, rtt_us, 1.0);
        let share = path.run(StrategyName::Notify, 10.0).questions_share;
        println!("{path}: {share:.3}");
        assert!(share < 0.055, "{path}: {share:.3}");
    }
}

/// The path explains a part of what a request takes, down to a twenty-fifth.
#[test]
fn a_late_disk_costs_little_throughput() {
    let mut bad = Vec::new();
    for rate in [12.5e6, 125e6] {
        for rtt_us in [2_000, 20_000, 50_000] {
            for disk_us in [2_000, 5_000, 20_000, 50_000] {
                let path = Path { disk_us, ..Path::new(rate, rtt_us, 1.0) };
                let run = path.run(StrategyName::Notify, 20.0);
                let line = format!(
                    "{path}, disk {disk_us} us: {:.3}, last half {:.3}, lost {:.0} kB",
                    run.share(path),
                    run.last_half_share(path),
                    run.lost / 1e3
                );
                println!("{line}");
                if run.share(path) < 0.95 || run.last_half_share(path) < 0.98 || run.lost > 1e-3 * run.total {
                    bad.push(line);
                }
            }
        }
    }
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

/// Most of W is with the disk, and what that has together comes in bunches that a short queue does not hold.
#[test]
fn what_the_bunches_of_a_late_disk_lose_is_no_threshold() {
    for rtt_us in [2_000, 4_000] {
        let path = Path { disk_us: 50_000, told_late: true, ..Path::new(12.5e6, rtt_us, 1.0) };
        let share = path.run(StrategyName::Notify, 20.0).share(path);
        println!("{path}: {share:.3}");
        assert!(share > 0.95, "{path}: {share:.3}");
    }
}

/// What a hole held back completes at once, and what is lost behind it is sent again while new requests are on their way.
#[test]
fn behind_a_loss_less_is_asked_for_than_the_path_carries() {
    for rate in [12.5e6, 125e6] {
        let path = Path { hole_us: 2_000_000, ..Path::new(rate, 50_000, 1.0) };
        let run = path.run(StrategyName::Notify, 5.0);
        let share = run.asked_after_hole / (rate * 0.05);
        println!("{path}: {share:.3}, last half {:.3}", run.last_half_share(path));
        assert!((0.4..0.8).contains(&share), "{path}: {share:.3}");
        assert!(run.last_half_share(path) > 0.98, "{path}");
    }
}

/// Who was there first does not keep more than two thirds for long.
#[test]
fn a_flow_that_comes_later_gets_its_part() {
    for (rtt_us, queue_bdp) in
        [(10_000, 1.0), (15_000, 0.5), (20_000, 0.5), (25_000, 0.5), (30_000, 0.5), (20_000, 2.0)]
    {
        let path = Path { rival_us: 4_000_000, ..Path::new(12.5e6, rtt_us, queue_bdp) };
        let run = path.run(StrategyName::Notify, 16.0);
        let (share, rival) = (run.last_half_share(path), run.rival_last_half / 8.0 / path.rate);
        println!("{path}: {share:.3}, the other {rival:.3}");
        assert!(share > 1.0 / 3.0 && rival > 1.0 / 3.0, "{path}: {share:.3}, the other {rival:.3}");
    }
}

/// The gap between two reads is a round trip. All of W at once is more than the queue holds.
#[test]
fn a_near_reader_that_comes_back_asks_for_no_burst() {
    for rtt_us in [2_000, 3_000, 5_000, 6_000] {
        let path = Path { read_bytes: f64::from(16 << 20), ..Path::new(125e6, rtt_us, 0.1) };
        let share = path.run(StrategyName::Notify, 10.0).share(path);
        println!("{path}: {share:.3}");
        assert!(share > 0.92, "{path}: {share:.3}");
    }
}

/// A reader that never asks for all that it may is no reason to look closely for ever.
#[test]
fn a_leisurely_reader_is_looked_at_a_hundred_times_a_second() {
    for rtt_us in [1_000, 2_000, 20_000] {
        for (part, other_disk_bytes) in [(0.2, 0.0), (0.6, 0.0), (0.4, 4096.0)] {
            let path = Path::new(12.5e6, rtt_us, 1.0);
            let path = Path { reader_bytes: part * path.rate * rtt_us as f64 / 1e6, other_disk_bytes, ..path };
            let run = path.run(StrategyName::Notify, 10.0);
            println!("{path}, {part} of it: {} looks, {:.3}", run.looks_last_half, run.last_half_share(path));
            assert!(run.looks_last_half < 800, "{path}: {}", run.looks_last_half);
        }
    }
}

/// What a disk does not use of its share is the others'.
#[test]
fn a_disk_that_wants_little_leaves_the_path_to_the_other() {
    for rate in [12.5e6, 50e6, 125e6] {
        for rtt_us in [2_000, 20_000, 100_000] {
            for other_disk_bytes in [4096.0, 65_536.0] {
                let path = Path { other_disk_bytes, ..Path::new(rate, rtt_us, 0.5) };
                let share = path.run(StrategyName::Notify, 10.0).share(path);
                println!("{path}, the other disk {other_disk_bytes} at a time: {share:.3}");
                assert!(share > if rtt_us > 20_000 { 0.85 } else { 0.97 }, "{path}: {share:.3}");
            }
        }
    }
}
