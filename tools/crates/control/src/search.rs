// SPDX-License-Identifier: GPL-2.0-only
//! `linear` and `binary`: the window is found by trying, by the throughput alone.
//!
//! After the searches of Toyoda, Oguchi and Yamaguchi ("TCP Congestion Window Controlling Algorithms on iSCSI Sequential
//! Read Access", ICDE Workshops 2005), for targets that do not tell of their connection. A trial's throughput is taken
//! over some turns; a turn is the time in which one window arrives, which is a round trip or, if there is a queue, a
//! little more. While the path has room, throughput grows as the window does: a trial has *gained* if it brought at least
//! an eighth of that. `docs/control.md` says more.

use crate::readers::Readers;
use crate::{Input, Limits, Output, Strategy};

/// The first window, and how much `linear` adds to it each time.
const STEP_BYTES: u64 = 256 << 10;
/// Commands that a session may have outstanding: LIO's default, less what others may ask for.
const ASSUMED_COMMANDS: u32 = 62;
/// The request size grows in few and large steps, since each drains the queue.
const FIRST_REQUEST_BYTES: u32 = 64 << 10;
const REQUEST_GROWTH: u32 = 4;
/// Least read-ahead: it must be long before the window is known. But a buffered reader gets its data in pieces of this
/// size, which take a second at 100 Mbit/s.
const READ_AHEAD_BYTES: u64 = 8 << 20;
/// Turns from a change until it shows, TCP's slow start included, and turns over which throughput is then taken.
const SETTLE_TURNS: u64 = 2;
const MEASURE_TURNS: u64 = 4;
/// Least time of either: whole requests make a shorter one uneven.
const LEAST_US: u64 = 20_000;
/// Larger and larger windows without gain that end `linear`'s search: a recovery from a loss may hide the gain of one.
const LINEAR_PATIENCE: u32 = 3;
/// Trials of one window without gain that `binary` believes.
const BINARY_PATIENCE: u32 = 2;
/// `binary` ends when it knows the window to this part of it.
const PRECISION: u64 = 8;
/// The part of what an empty path would bring that counts as a gain.
const GAIN: u128 = 8;
/// Measurements in a row, each over twice or below half of what was found, that tell of another path.
const CHANGED: u32 = 3;
/// A turn before any was measured.
const ASSUMED_TURN_US: u64 = 40_000;
const TICK_US: std::ops::RangeInclusive<u64> = 10_000..=100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Linear,
    Binary,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    window_bytes: u64,
    request_bytes: u32,
    /// Bytes per second.
    rate: u64,
}

impl Trial {
    /// The throughput with which another trial has gained. Of each window a request is on its way to the target.
    fn gain_rate(self, window_bytes: u64, request_bytes: u32) -> u64 {
        let carried = |window_bytes: u64, request_bytes: u32| window_bytes.saturating_sub(request_bytes.into()).max(1);
        let before = u128::from(carried(self.window_bytes, self.request_bytes));
        let after = u128::from(carried(window_bytes, request_bytes));
        let rate = u128::from(self.rate) * ((GAIN - 1) * before + after) / (GAIN * before);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// What arrives from a moment on.
#[derive(Clone, Copy, Debug)]
struct Span {
    from_us: u64,
    from_bytes: u64,
    /// A change settles; only then is it measured.
    settling: bool,
    /// Looks, and how many of them found most of the window asked for.
    looks: u32,
    full_looks: u32,
}

#[derive(Debug)]
pub struct Search {
    method: Method,
    limits: Limits,
    readers: Readers,
    window_bytes: u64,
    /// The request size in force, and the one asked for.
    request_bytes: u32,
    wanted_request_bytes: u32,
    span: Option<Span>,
    best: Option<Trial>,
    /// The least window that has brought no gain.
    above_bytes: Option<u64>,
    /// Trials in a row without gain; after the search, measurements in a row of another throughput than the one found.
    misses: u32,
    found: bool,
    reason: String,
}

impl Search {
    pub fn new(method: Method, limits: Limits) -> Self {
        let limits = Limits { max_commands: limits.max_commands.min(ASSUMED_COMMANDS), ..limits };
        let mut search = Self {
            method,
            limits,
            readers: Readers::default(),
            window_bytes: 0,
            request_bytes: 0,
            wanted_request_bytes: 0,
            span: None,
            best: None,
            above_bytes: None,
            misses: 0,
            found: false,
            reason: "nothing reads".into(),
        };
        search.anew();
        search.request_bytes = search.request_for(search.window_bytes);
        search
    }

    fn anew(&mut self) {
        (self.best, self.above_bytes, self.misses, self.found) = (None, None, 0, false);
        self.window_bytes = STEP_BYTES.min(self.limits.max_window_bytes);
    }

    /// The largest window that the limits allow.
    fn bound(&self, input: &Input<'_>) -> u64 {
        let depth = self.readers.commands().clamp(1, self.limits.max_commands);
        let hardware = input.disks.iter().map(|d| d.max_request_bytes).filter(|&bytes| bytes > 0).min();
        let request = self.limits.max_request_bytes.min(hardware.unwrap_or(u32::MAX));
        self.limits.max_window_bytes.min(u64::from(depth) * u64::from(request))
    }

    /// The readers ask for most of the window.
    fn in_use(&self) -> bool {
        self.readers.asked_bytes() >= self.window_bytes / 2
    }

    fn request_for(&self, window_bytes: u64) -> u32 {
        let Limits { min_request_bytes, max_request_bytes, max_commands, .. } = self.limits;
        let mut request = FIRST_REQUEST_BYTES.clamp(min_request_bytes, max_request_bytes);
        while request < max_request_bytes && u64::from(max_commands) * u64::from(request) < window_bytes {
            request = request.saturating_mul(REQUEST_GROWTH).min(max_request_bytes);
        }
        request
    }

    /// How long a window takes to arrive with gain, as far as is known.
    fn turn_us(&self) -> Option<u64> {
        let rate = self.best?.gain_rate(self.window_bytes, self.request_bytes).max(1);
        Some(self.window_bytes.saturating_mul(1_000_000) / rate)
    }

    /// So many turns are over: their bytes have arrived, or are too late for a gain.
    fn over(&self, span: &Span, turns: u64, input: &Input<'_>, bytes: u64) -> bool {
        let elapsed_us = input.now_us.saturating_sub(span.from_us);
        let late = self.turn_us().is_some_and(|turn_us| elapsed_us >= turns.saturating_mul(turn_us));
        elapsed_us >= LEAST_US && (late || bytes - span.from_bytes >= turns * self.window_bytes)
    }

    /// Follows the current trial to its end.
    fn measure(&mut self, input: &Input<'_>) {
        let bytes = input.read_bytes();
        let begin =
            |settling| Some(Span { from_us: input.now_us, from_bytes: bytes, settling, looks: 0, full_looks: 0 });
        let Some(mut span) = self.span.filter(|span| !input.changing() && span.from_bytes <= bytes) else {
            self.span = begin(true);
            return;
        };
        if span.settling {
            if self.over(&span, SETTLE_TURNS, input, bytes) {
                self.span = begin(false);
            }
            return;
        }
        span.looks += 1;
        span.full_looks += u32::from(self.in_use());
        self.span = Some(span);
        if !self.over(&span, MEASURE_TURNS, input, bytes) {
            return;
        }
        self.span = begin(false);
        if 2 * span.full_looks < span.looks {
            return; // What is not asked for teaches nothing.
        }
        let elapsed_us = u128::from(input.now_us - span.from_us);
        let rate = u128::from(bytes - span.from_bytes) * 1_000_000 / elapsed_us.max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let before = self.window_bytes;
        self.judge(Trial { window_bytes: before, request_bytes: self.request_bytes, rate }, input);
        if self.window_bytes != before {
            self.span = begin(true);
        }
    }

    fn judge(&mut self, trial: Trial, input: &Input<'_>) {
        let (kb, kb_per_s) = (trial.window_bytes / 1000, trial.rate / 1000);
        if let Some(best) = self.best.filter(|_| self.found) {
            let same = best.rate / 2 <= trial.rate && trial.rate / 2 <= best.rate;
            self.misses = if same { 0 } else { self.misses + 1 };
            if self.misses == CHANGED {
                self.anew();
                self.reason = format!("{kb_per_s} kB/s where it was {}: search anew", best.rate / 1000);
            }
            return;
        }
        let best = match self.best {
            Some(best) if trial.rate < best.gain_rate(trial.window_bytes, trial.request_bytes) => {
                self.misses += 1;
                self.reason = format!("no gain at {kb} kB, {kb_per_s} kB/s");
                best
            }
            _ => {
                (self.misses, self.best) = (0, Some(trial));
                self.reason = format!("{kb_per_s} kB/s at {kb} kB");
                trial
            }
        };
        let bound = self.bound(input);
        let next = match self.method {
            Method::Linear if self.misses == LINEAR_PATIENCE => None,
            Method::Linear => Some(self.window_bytes + STEP_BYTES.max(self.request_bytes.into())),
            Method::Binary if (1..BINARY_PATIENCE).contains(&self.misses) => return,
            Method::Binary => {
                if self.misses > 0 {
                    (self.above_bytes, self.misses) = (Some(trial.window_bytes), 0);
                }
                match self.above_bytes {
                    None => Some(2 * self.window_bytes),
                    Some(above) => {
                        let between = (above - best.window_bytes) / 2;
                        let fine = (best.window_bytes / PRECISION).max(self.request_bytes.into());
                        (2 * between > fine).then_some(best.window_bytes + between)
                    }
                }
            }
        };
        match next
            .map(|bytes| bytes.min(bound))
            .filter(|&bytes| bytes > best.window_bytes && bytes != trial.window_bytes)
        {
            Some(next) => self.window_bytes = next,
            None => {
                self.reason = format!("found {} kB/s at {} kB", best.rate / 1000, best.window_bytes / 1000);
                (self.window_bytes, self.found, self.misses) = (best.window_bytes, true, 0);
            }
        }
    }

    fn output(&mut self, input: &Input<'_>, phase: &'static str, next_us: u64) -> Output {
        let wanted = self.request_for(self.window_bytes);
        let refused = std::mem::replace(&mut self.wanted_request_bytes, wanted) == wanted && !input.changing();
        let used = self.in_use();
        // Behind the drain come requests of the new size, and no more than the window may follow.
        let command_bytes = if refused { self.request_bytes } else { wanted.max(self.request_bytes) };
        let request_bytes = u64::from(command_bytes);
        if !refused {
            self.readers.expect(request_bytes);
        }
        let max_commands = u64::from(self.limits.max_commands);
        let commands = u64::div_ceil;
        Output {
            phase,
            limit: match phase {
                "search" if used => "depth",
                "found" if used && self.window_bytes < self.bound(input) => "link",
                "found" if used => "depth",
                _ => "application",
            },
            window_bytes: self.window_bytes,
            request_bytes: wanted,
            depths: self.readers.depths(self.window_bytes, commands, request_bytes, max_commands),
            advertised_bytes: None,
            read_ahead_bytes: (2 * self.window_bytes).max(READ_AHEAD_BYTES).min(self.limits.max_read_ahead_bytes),
            rate: None,
            next_us,
            page_us: u64::MAX,
            reason: self.reason.clone(),
        }
    }
}

impl Strategy for Search {
    fn rest(&mut self, input: &Input<'_>) -> Output {
        self.span = None;
        self.readers.look(input.now_us, ASSUMED_TURN_US, input.disks);
        self.request_bytes = self.request_for(self.window_bytes);
        self.output(input, "rest", u64::MAX)
    }

    fn tick(&mut self, input: &Input<'_>) -> Output {
        if let Some(request_bytes) = input.request_bytes().filter(|&bytes| bytes != self.request_bytes) {
            (self.request_bytes, self.span) = (request_bytes, None);
        }
        let turn_us = self.turn_us().unwrap_or(ASSUMED_TURN_US);
        self.readers.look(input.now_us, turn_us, input.disks);
        self.measure(input);
        let turn_us = self.turn_us().unwrap_or(ASSUMED_TURN_US);
        let wait_us = (turn_us / 4).clamp(*TICK_US.start(), *TICK_US.end());
        self.output(input, if self.found { "found" } else { "search" }, input.now_us + wait_us)
    }
}
