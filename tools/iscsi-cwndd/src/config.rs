// SPDX-License-Identifier: GPL-2.0-only
//! The configuration file. `configs/iscsi-cwndd.toml` documents every key; a mistake is one line.

use cwnd_control::{Limits, StrategyName};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const DEFAULT_PATH: &str = "/etc/iscsi-cwndd.toml";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExit {
    Restore,
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    #[serde(deserialize_with = "strategy_name")]
    pub strategy: StrategyName,
    pub on_exit: OnExit,
    pub bound_advertised_window: bool,
    pub state_dir: PathBuf,
    pub runtime_dir: PathBuf,
    idle_interval_ms: u64,
    idle_after_ms: u64,
    rescan_s: u64,
    page_timeout_s: u64,
    pub log_lines_per_minute: u32,
    limits: LimitsTable,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsTable {
    min_request_bytes: u32,
    max_request_bytes: u32,
    max_commands: u32,
    max_window_bytes: u64,
    max_read_ahead_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            strategy: StrategyName::Notify,
            on_exit: OnExit::Restore,
            bound_advertised_window: true,
            state_dir: "/var/lib/iscsi-cwndd".into(),
            runtime_dir: "/run/iscsi-cwndd".into(),
            idle_interval_ms: 50,
            idle_after_ms: 500,
            rescan_s: 5,
            page_timeout_s: 30,
            log_lines_per_minute: 30,
            limits: LimitsTable::default(),
        }
    }
}

impl Default for LimitsTable {
    fn default() -> Self {
        let Limits { min_request_bytes, max_request_bytes, max_commands, max_window_bytes, max_read_ahead_bytes } =
            Limits::default();
        Self { min_request_bytes, max_request_bytes, max_commands, max_window_bytes, max_read_ahead_bytes }
    }
}

impl Config {
    /// Reads the file; `None` is the default path, where there need not be one.
    pub fn load(path: Option<&Path>) -> Result<Self, String> {
        let (path, required) = (path.unwrap_or(Path::new(DEFAULT_PATH)), path.is_some());
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|reason| format!("{}: {reason}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let limits = &self.limits;
        let ranges = [
            ("idle_interval_ms", self.idle_interval_ms, 1, 10_000),
            ("idle_after_ms", self.idle_after_ms, 0, 60_000),
            ("rescan_s", self.rescan_s, 1, 3600),
            ("page_timeout_s", self.page_timeout_s, 5, 300),
            ("log_lines_per_minute", self.log_lines_per_minute.into(), 0, 60_000),
            ("limits.min_request_bytes", limits.min_request_bytes.into(), 4 << 10, limits.max_request_bytes.into()),
            ("limits.max_request_bytes", limits.max_request_bytes.into(), 4 << 10, 32 << 20),
            ("limits.max_commands", limits.max_commands.into(), 1, 4096),
            ("limits.max_window_bytes", limits.max_window_bytes, 64 << 10, 4 << 30),
            ("limits.max_read_ahead_bytes", limits.max_read_ahead_bytes, 128 << 10, 4 << 30),
        ];
        for (key, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(format!("{key} = {value}: allowed {min} to {max}"));
            }
        }
        for (key, bytes) in
            [("min_request_bytes", limits.min_request_bytes), ("max_request_bytes", limits.max_request_bytes)]
        {
            if !bytes.is_power_of_two() {
                return Err(format!("limits.{key} = {bytes}: allowed are powers of two"));
            }
        }
        for (key, dir) in [("state_dir", &self.state_dir), ("runtime_dir", &self.runtime_dir)] {
            if !dir.is_absolute() {
                return Err(format!("{key} = {dir:?}: allowed are absolute paths"));
            }
        }
        Ok(())
    }

    pub fn limits(&self) -> Limits {
        let LimitsTable { min_request_bytes, max_request_bytes, max_commands, max_window_bytes, max_read_ahead_bytes } =
            self.limits;
        Limits { min_request_bytes, max_request_bytes, max_commands, max_window_bytes, max_read_ahead_bytes }
    }

    pub fn idle_interval_us(&self) -> u64 {
        self.idle_interval_ms * 1000
    }

    pub fn idle_after_us(&self) -> u64 {
        self.idle_after_ms * 1000
    }

    pub fn rescan_us(&self) -> u64 {
        self.rescan_s * 1_000_000
    }

    pub fn page_timeout(&self) -> Duration {
        Duration::from_secs(self.page_timeout_s)
    }

    pub fn status_socket(&self) -> PathBuf {
        self.runtime_dir.join("status.sock")
    }
}

fn strategy_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StrategyName, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// The parser's message behind the number and text of the line it is about.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message;
    };
    let index = before.matches('\n').count();
    let line = text.lines().nth(index).unwrap_or_default().trim();
    format!("line {}, {line:?}: {message}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_says_the_defaults() {
        let shipped = include_str!("../../../configs/iscsi-cwndd.toml");
        assert_eq!(Config::parse(shipped), Ok(Config::default()));
        // Every key is there, commented out, with its default.
        let uncommented = shipped
            .lines()
            .map(|line| line.strip_prefix('#').filter(|rest| rest.contains(" = ")).unwrap_or(line))
            .collect::<Vec<_>>()
            .join(
                "
",
            );
        assert_eq!(Config::parse(&uncommented), Ok(Config::default()));
        for key in [
            "strategy",
            "on_exit",
            "bound_advertised_window",
            "state_dir",
            "runtime_dir",
            "max_commands",
            "max_read_ahead_bytes",
        ] {
            assert!(uncommented.contains(&format!("\n{key} = ")), "{key}");
        }
    }

    #[test]
    fn a_mistake_is_one_line_with_key_and_allowed_values() {
        for (text, wanted) in [
            ("idle_interval_ms = 0", "idle_interval_ms = 0: allowed 1 to 10000"),
            (
                "strategy = \"x\"",
                "line 1, \"strategy = \\\"x\\\"\": \"x\" is not a strategy; allowed: off, notify, linear, binary",
            ),
            ("\non_exit = \"no\"", "unknown variant `no`, expected `restore` or `keep`"),
            ("idle = 3", "unknown field `idle`, expected one of `strategy`, `on_exit`"),
            ("[limits]\nmax_commands = \"9\"", "line 2, \"max_commands = \\\"9\\\"\": invalid type"),
            ("state_dir = \"x\"", "state_dir = \"x\": allowed are absolute paths"),
            ("[limits]\nmin_request_bytes = 2097152", "limits.min_request_bytes = 2097152: allowed 4096 to 1048576"),
            ("[limits]\nmin_request_bytes = 6000", "limits.min_request_bytes = 6000: allowed are powers of two"),
        ] {
            let message = Config::parse(text).unwrap_err();
            assert!(message.contains(wanted), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
}
