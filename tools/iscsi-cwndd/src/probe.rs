// SPDX-License-Identifier: GPL-2.0-only
//! `iscsi-cwndd probe`: asks once and prints what was said.

use crate::host::scsi;
use cwnd_log_page::Page;
use std::path::Path;
use std::time::Duration;

/// The page of a disk given by name (`sda`) or path, as JSON or one `name: value` a line.
pub fn probe(disk: &Path, json: bool, timeout: Duration) -> Result<String, String> {
    // Joining an absolute path gives that path.
    let path = Path::new("/dev").join(disk);
    let of_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let device = scsi::open(&path).map_err(|error| of_path(&error))?;
    let bytes = scsi::log_sense(&device, timeout).map_err(|error| of_path(&error))?;
    let page = Page::parse(&bytes).map_err(|error| of_path(&error))?;
    let value = serde_json::to_value(&page).map_err(|error| of_path(&error))?;
    Ok(if json { value.to_string() } else { lines(&value, "").join("\n") })
}

fn lines(value: &serde_json::Value, name: &str) -> Vec<String> {
    let nested = |key: &dyn std::fmt::Display| {
        if name.is_empty() { key.to_string() } else { format!("{name}.{key}") }
    };
    match value {
        serde_json::Value::Object(map) => map.iter().flat_map(|(key, value)| lines(value, &nested(key))).collect(),
        serde_json::Value::Array(list) => {
            list.iter().enumerate().flat_map(|(index, value)| lines(value, &nested(&index))).collect()
        }
        _ => vec![format!("{name}: {value}")],
    }
}
